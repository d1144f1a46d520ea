package dashboards_test

import (
	"context"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"gopkg.in/yaml.v3"

	"github.com/plexsphere/leader-exporter/collector"
	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
	"github.com/plexsphere/leader-exporter/loop"
	"github.com/plexsphere/leader-exporter/worker"
)

// selector is a metric with its matchers, as a query has it.
type selector struct{ metric, matchers string }

// selectors are those of a query. A metric without braces would escape this, and is an error.
func selectors(tb testing.TB, q question) []selector {
	tb.Helper()
	var found []selector
	for _, match := range regexp.MustCompile("([a-zA-Z_:]+)\\{((?:[^}`\"]|`[^`]*`|\"[^\"]*\")*)\\}").FindAllStringSubmatch(q.expr, -1) {
		found = append(found, selector{match[1], match[2]})
	}
	if named := len(regexp.MustCompile(`\b(?:plexsphere_|leader_|ALERTS)\w*`).FindAllString(q.expr, -1)); named != len(found) {
		tb.Fatalf("%s names %d metrics and has %d selectors", q.where, named, len(found))
	}
	return found
}

// register keeps what the descriptions of collectors say: the labels of each metric.
type register struct{ labels map[string][]string }

func (r register) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 100)
	c.Describe(descs)
	close(descs)
	for desc := range descs {
		match := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([^}]*)\}`).FindStringSubmatch(desc.String())
		r.labels[match[1]] = strings.FieldsFunc(match[2], func(c rune) bool { return c == ',' })
	}
	return nil
}

func (r register) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		_ = r.Register(c)
	}
}

func (register) Unregister(prometheus.Collector) bool { return false }

// exported returns the labels of each metric that the project's packages export, with those that Prometheus adds.
func exported(tb testing.TB) map[string][]string {
	tb.Helper()
	r := register{map[string][]string{}}
	r.MustRegister(collector.New(nil))
	pool, err := pgxpool.New(tb.Context(), "postgres://nobody@127.0.0.1:1/none")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	nothing := func(context.Context) error { return nil }
	if _, err := leader.New(leader.Config{Pool: pool, Registerer: r}); err != nil {
		tb.Fatal(err)
	}
	if _, err := loop.NewTicker(loop.Config{Name: "x", Every: 1, Leader: &leadertest.Elector{}, Registerer: r}, nothing); err != nil {
		tb.Fatal(err)
	}
	if _, err := worker.New(worker.Config{Registerer: r}); err != nil {
		tb.Fatal(err)
	}
	for name := range r.labels {
		r.labels[name] = append(r.labels[name], "deployment", "instance")
	}
	r.labels["ALERTS"] = []string{"alertname", "alertstate", "deployment"}
	return r.labels
}

// labelsOf returns the labels of a metric, or of the histogram of which it is a part.
func labelsOf(metrics map[string][]string, name string) ([]string, bool) {
	if labels, ok := metrics[name]; ok {
		return labels, true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, cut := strings.CutSuffix(name, suffix); cut && strings.HasSuffix(base, "_seconds") && metrics[base] != nil {
			return append(slices.Clone(metrics[base]), "le"), true
		}
	}
	return nil, false
}

func TestEveryMetricAndLabelIsExportedByTheCode(t *testing.T) {
	metrics := exported(t)
	used := map[string]bool{}
	for _, q := range questions(t) {
		known := map[string]bool{}
		for _, s := range selectors(t, q) {
			labels, ok := labelsOf(metrics, s.metric)
			if !ok {
				t.Errorf("%s asks for %s, which nothing exports", q.where, s.metric)
			}
			used[s.metric] = true
			for _, match := range regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)["`+"`]").FindAllStringSubmatch(s.matchers, -1) {
				if !slices.Contains(labels, match[1]) {
					t.Errorf("%s matches %s by %s, which it does not have", q.where, s.metric, match[1])
				}
			}
			for _, label := range labels {
				known[label] = true
			}
		}
		for _, match := range regexp.MustCompile(`(?:by|on|group_left) \(([^)]*)\)`).FindAllStringSubmatch(q.expr, -1) {
			for label := range strings.SplitSeq(match[1], ",") {
				if label = strings.TrimSpace(label); label != "" && !known[label] {
					t.Errorf("%s groups by %s, which none of its metrics has", q.where, label)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		series := name
		if _, histogram := map[string]bool{
			"leader_lock_handover_duration_seconds": true, "leader_exporter_poll_duration_seconds": true, "plexsphere_background_loop_tick_duration_seconds": true,
		}[name]; histogram {
			series = name + "_bucket"
		}
		if !used[series] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// The names of series and columns are labels of the result.
func TestLegendsAndColumnsAreLabelsOfTheResult(t *testing.T) {
	by := regexp.MustCompile(`(?:by|group_left) \(([^)]*)\)`)
	for _, b := range boards(t) {
		for _, p := range b.charts() {
			columns := map[string]bool{}
			for _, q := range p.Targets {
				grouped := ""
				for _, match := range by.FindAllStringSubmatch(q.Expr, -1) {
					grouped += "," + strings.ReplaceAll(match[1], " ", "")
				}
				for label := range strings.SplitSeq(strings.Trim(grouped, ","), ",") {
					columns[label] = true
				}
				for _, match := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(q.LegendFormat, -1) {
					if !strings.Contains(grouped+",", ","+match[1]+",") {
						t.Errorf("%s: %s: %s names its series by %s, which is not in %s", b.file, p.Title, q.RefID, match[1], grouped)
					}
				}
			}
			for _, transformation := range p.Transformations {
				for name := range transformation.Options.RenameByName {
					if !strings.HasPrefix(name, "Value #") && !columns[name] {
						t.Errorf("%s: %s: the column %s has nothing in it", b.file, p.Title, name)
					}
				}
			}
		}
	}
}

// The alerts that the dashboards count are those that ship.
func TestEveryAlertIsCounted(t *testing.T) {
	content, err := os.ReadFile("../alerts/background-leader.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert string `yaml:"alert"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(content, &rules); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, q := range questions(t) {
		match := regexp.MustCompile(`alertname=~"([^"]*)"`).FindStringSubmatch(q.expr)
		if match == nil {
			continue
		}
		for _, rule := range rules.Groups[0].Rules {
			if !regexp.MustCompile("^(?:" + match[1] + ")$").MatchString(rule.Alert) {
				t.Errorf("%s does not count %s", q.where, rule.Alert)
			}
			checked++
		}
	}
	if checked == 0 {
		t.Error("no query counts alerts")
	}
}
