package prometheus_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/alerts"
	"github.com/plexsphere/leader-exporter/deploy/prometheus"
	"github.com/plexsphere/leader-exporter/internal/golden"
)

// The quick start is the example of README.md, at the intervals for which the rules ship.
func TestQuickStartIsConfigOfTheExample(t *testing.T) {
	config, err := prometheus.Config(prometheus.Setup{
		ScrapeInterval: 15 * time.Second, EvaluationInterval: 15 * time.Second,
		Alertmanagers: []string{"127.0.0.1:9093"},
		Deployments: []prometheus.Deployment{{
			Name: "prod", Replicas: []string{"api-1:9090", "api-2:9090", "api-3:9090"}, Exporters: []string{"leader-exporter:18861"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	golden.Require(t, "../prometheus.yml", string(config))
	if got := strings.Count(string(config), "deployment: prod}"); got != 2 {
		t.Errorf("%d jobs have the label deployment; want 2", got)
	}
}

// The rules stand beside it, so that the folder can be copied as it is.
func TestRulesBesideTheQuickStartAreThoseThatShip(t *testing.T) {
	rules, err := alerts.Rules(alerts.Params{})
	if err != nil {
		t.Fatal(err)
	}
	golden.Require(t, "../"+prometheus.RuleFile, string(rules))
}

func TestPromtoolAcceptsTheQuickStart(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatalf("%v; to install it: make setup", err)
	}
	out, err := exec.CommandContext(t.Context(), promtool, "check", "config", "prometheus.yml").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "14 rules found") {
		t.Errorf("%v\n%s", err, out)
	}
}
