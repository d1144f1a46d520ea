package dashboards_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// promtool runs it on a file with this content. Without it the test fails: the queries are what only Prometheus can judge.
func promtool(tb testing.TB, content any, args ...string) (string, error) {
	tb.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		tb.Fatalf("%v; to install it: make setup", err)
	}
	text, err := yaml.Marshal(content)
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(tb.TempDir(), "file.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		tb.Fatal(err)
	}
	out, err := exec.CommandContext(tb.Context(), path, append(args, file)...).CombinedOutput()
	return string(out), err
}

func TestPromtoolAcceptsEveryQueryAsRecordingRule(t *testing.T) {
	type rule struct {
		Record string            `yaml:"record"`
		Expr   string            `yaml:"expr"`
		Labels map[string]string `yaml:"labels"` // two queries of two files may be the same
	}
	type group struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	}
	g := group{Name: "dashboards"}
	for i, q := range questions(t) {
		g.Rules = append(g.Rules, rule{"dashboard:query", fill(q.expr, usual()), map[string]string{"number": strconv.Itoa(i)}})
	}
	out, err := promtool(t, map[string]any{"groups": []group{g}}, "check", "rules", "--lint=all", "--lint-fatal")
	if err != nil || !strings.Contains(out, strconv.Itoa(len(g.Rules))+" rules found") {
		t.Errorf("%v\n%s", err, out)
	}
}

// series is one line of the input of promtool.
type series struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

// sample is what a query must answer.
type sample struct {
	Labels string  `yaml:"labels"`
	Value  float64 `yaml:"value"`
}

// expr returns the query of a panel, with its variables filled in.
func expr(tb testing.TB, where string) string {
	tb.Helper()
	for _, q := range questions(tb) {
		if q.where == where {
			return fill(q.expr, usual())
		}
	}
	tb.Fatalf("there is no query %q", where)
	return ""
}

func claim(instance, values string) series {
	return series{`plexsphere_background_leader{deployment="demo",instance="` + instance + `"}`, values}
}

// ofTheLock is a series of the exporter about the lock of the demo.
func ofTheLock(metric, values string, more ...string) series {
	labels := append([]string{`deployment="demo",instance="x",target="t",datname="d",lock="background-leader"`}, more...)
	return series{metric + "{" + strings.Join(labels, ",") + "}", values}
}

func holderIs(name, values string) series {
	return ofTheLock("leader_lock_holder_info", values, `application_name="`+name+`",usename="u",client_addr=""`)
}

const exporterUp = `leader_lock_up{deployment="demo",instance="x",target="t"}`

// What a panel says in states that the demo does not come into. Each ends at the fourth minute, scraped once a minute.
func TestPanelsTellTheTruthInOddStates(t *testing.T) {
	t.Parallel()
	alert := series{`ALERTS{deployment="demo",alertname="BackgroundLeaderMissing",alertstate="firing"}`, "_ _ _ 1 1"}
	terms := func(values string) series { return ofTheLock("leader_lock_terms_total", values) }
	for _, tc := range []struct {
		name, query string
		input       []series
		want        []sample // none: the panel says unknown
	}{
		{"one leader", "deployment.json: Leaders now: A", []series{claim("a", "1x4"), claim("b", "0x4"), ofTheLock("leader_lock_held", "1x4")}, []sample{{`{deployment="demo"}`, 1}}},
		{"no leader", "deployment.json: Leaders now: A", []series{claim("a", "0x4"), ofTheLock("leader_lock_held", "0x4")}, []sample{{`{deployment="demo"}`, 0}}},
		{"two leaders", "deployment.json: Leaders now: A", []series{claim("a", "1x4"), claim("b", "1x4"), ofTheLock("leader_lock_held", "1x4")}, []sample{{`{deployment="demo"}`, 2}}},
		{"two leaders on a free lock", "deployment.json: Leaders now: A", []series{claim("a", "1x4"), claim("b", "1x4"), ofTheLock("leader_lock_held", "0x4")}, []sample{{`{deployment="demo"}`, 2}}},
		{"a lock that nobody claims", "deployment.json: Leaders now: A", []series{claim("a", "0x4"), ofTheLock("leader_lock_held", "1x4")}, []sample{{`{deployment="demo"}`, -1}}},
		{"a claim on a free lock", "deployment.json: Leaders now: A", []series{claim("a", "1x4"), ofTheLock("leader_lock_held", "0x4")}, []sample{{`{deployment="demo"}`, -2}}},
		{"the exporter cannot tell", "deployment.json: Leaders now: A", []series{claim("a", "1x4"), {exporterUp, "0x4"}}, []sample{{`{deployment="demo"}`, 1}}},
		{"no replica is scraped", "deployment.json: Leaders now: A", []series{claim("a", "1 1 stale"), ofTheLock("leader_lock_held", "1x4")}, nil},
		{"another deployment", "deployment.json: Leaders now: A", []series{{`plexsphere_background_leader{deployment="demo2",instance="a"}`, "1x4"}}, nil},
		{"an HA pair scrapes", "deployment.json: Leaders now: A", []series{
			{`plexsphere_background_leader{deployment="demo",instance="a",prometheus="1"}`, "1x4"},
			{`plexsphere_background_leader{deployment="demo",instance="a",prometheus="2"}`, "1x4"},
		}, []sample{{`{deployment="demo"}`, 1}}},

		{"a holder", "deployment.json: Who holds the lock: A", []series{holderIs("r1", "1x4"), ofTheLock("leader_lock_held", "1x4")}, []sample{{`{deployment="demo",application_name="r1"}`, 1}}},
		{"nobody holds it", "deployment.json: Who holds the lock: A", []series{holderIs("r1", "1 1 stale"), ofTheLock("leader_lock_held", "1 1 0 0 0")}, []sample{{`{deployment="demo",application_name="nobody"}`, 1}}},
		{"nobody knows the holder", "deployment.json: Who holds the lock: A", []series{holderIs("r1", "1 1 stale"), ofTheLock("leader_lock_held", "1 1 stale"), {exporterUp, "1 1 0 0 0"}}, nil},

		{"terms", "deployment.json: In this range: A", []series{terms("5 5 6 7 7")}, []sample{{`{deployment="demo"}`, 2}}},
		{"terms across a restart", "deployment.json: In this range: A", []series{terms("5 6 1 1 2")}, []sample{{`{deployment="demo"}`, 2}}},
		{"terms by two exporters", "deployment.json: In this range: A", []series{terms("5 5 6 7 7"), {
			`leader_lock_terms_total{deployment="demo",instance="y",target="t",datname="d",lock="background-leader"}`, "1 1 2 3 3",
		}}, []sample{{`{deployment="demo"}`, 2}}},

		{"nothing fires", "deployment.json: Alerts firing: A", []series{{exporterUp, "1x4"}}, []sample{{`{deployment="demo"}`, 0}}},
		{"an alert fires", "deployment.json: Alerts firing: A", []series{{exporterUp, "1x4"}, alert}, []sample{{`{deployment="demo"}`, 1}}},
		{"nobody can tell of alerts", "deployment.json: Alerts firing: A", nil, nil},
		{"no name fires", "deployment.json: Alerts: A", []series{claim("a", "1x4")}, []sample{{`{deployment="demo",alertname="none"}`, 0}}},
		{"a name fires", "deployment.json: Alerts: A", []series{claim("a", "1x4"), alert}, []sample{{`{deployment="demo",alertname="BackgroundLeaderMissing"}`, 1}}},

		{"a pass on the leader", "deployment.json: Loops in a pass, by role: B", append(passOn("a"), claim("a", "1x4"), claim("b", "0x4")), []sample{{`{deployment="demo"}`, 0}}},
		{"a pass on a standby", "deployment.json: Loops in a pass, by role: B", append(passOn("b"), claim("a", "1x4"), claim("b", "0x4")), []sample{{`{deployment="demo"}`, 1}}},

		{"no names are expected", "deployment.json: Present term: E", []series{ofTheLock("leader_lock_holder_visible", "1x4")}, []sample{
			{`{deployment="demo",target="t",datname="d",lock="background-leader"}`, -1},
		}},
		{"a foreigner", "deployment.json: Present term: E", []series{ofTheLock("leader_lock_holder_visible", "1x4"), ofTheLock("leader_lock_foreign_holder", "1x4")}, []sample{
			{`{deployment="demo",target="t",datname="d",lock="background-leader"}`, 1},
		}},

		{"no leader anywhere", "fleet.json: Deployments: B", []series{claim("a", "0x4")}, []sample{{`{}`, 0}}},
		{"no replica anywhere", "fleet.json: Deployments: B", []series{{exporterUp, "1x4"}}, nil},
		{"a silent deployment", "fleet.json: Deployments without exactly one leader: C", []series{{exporterUp, "1x4"}}, []sample{{`{}`, 1}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			content := map[string]any{"tests": []any{map[string]any{
				"interval": "1m", "input_series": tc.input,
				"promql_expr_test": []any{map[string]any{"expr": expr(t, tc.query), "eval_time": "4m", "exp_samples": tc.want}},
			}}}
			if out, err := promtool(t, content, "test", "rules"); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// passOn is a loop that is in a pass on one of two replicas.
func passOn(instance string) []series {
	var all []series
	for _, replica := range []string{"a", "b"} {
		value := map[bool]string{true: "1x4", false: "0x4"}[replica == instance]
		all = append(all, series{`plexsphere_background_loop_running{deployment="demo",instance="` + replica + `",loop="l"}`, value})
	}
	return all
}
