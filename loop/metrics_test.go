package loop_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/plexsphere/leader-exporter/leader/leadertest"
	"github.com/plexsphere/leader-exporter/loop"
)

// requireMetrics fails unless the registry has exactly the metrics that the documentation of loops names, and the elector's.
func requireMetrics(t *testing.T, registry *prometheus.Registry) {
	t.Helper()
	document, err := os.ReadFile("../docs/loops.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{"plexsphere_background_leader": true}
	for _, match := range regexp.MustCompile("`(plexsphere_\\w+)").FindAllStringSubmatch(string(document), -1) {
		documented[match[1]] = true
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !documented[f.GetName()] {
			t.Errorf("docs/loops.md does not name %s", f.GetName())
		}
		delete(documented, f.GetName())
	}
	if len(documented) != 0 {
		t.Errorf("not gathered: %v", documented)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) != 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
}

// T12: loops share the metrics of a registry; something else under a name is an error.
func TestMetricsAreShared(t *testing.T) {
	registry := prometheus.NewRegistry()
	for _, name := range []string{"a", "b"} {
		r := newRig()
		cfg := r.config()
		cfg.Name, cfg.Registerer = name, registry
		if _, err := loop.NewTicker(cfg, untilStop); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := testutil.GatherAndCount(registry, "plexsphere_background_loop_ticks_total"); n != 8 || err != nil {
		t.Errorf("%d series, %v; want four of each loop", n, err)
	}
	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "plexsphere_background_loop_running", Help: "Something else."}))
	cfg := loop.Config{Name: "a", Every: every, Leader: &leadertest.Elector{}, Registerer: taken}
	_, err := loop.NewTicker(cfg, untilStop)
	_, pacedErr := loop.NewWhileLeader(cfg, untilStop)
	for _, err := range []error{err, pacedErr} {
		if err == nil || !strings.Contains(err.Error(), "plexsphere_background_loop_running") {
			t.Errorf("on a taken name: %v", err)
		}
	}
}
