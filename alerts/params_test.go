package alerts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/alerts"
)

func TestRulesNameEachParameterThatIsWrong(t *testing.T) {
	for _, test := range []struct {
		name   string
		params alerts.Params
		want   []string
	}{
		{"negative", alerts.Params{CheckInterval: -1, ScrapeInterval: -1, ScrapeTimeout: -1, EvaluationInterval: -1}, []string{
			"CheckInterval: -1ns is not between 1ms and 1h0m0s", "ScrapeInterval: -1ns", "ScrapeTimeout: -1ns", "EvaluationInterval: -1ns",
		}},
		{"too long", alerts.Params{CheckInterval: 2 * time.Hour, ScrapeInterval: 3 * time.Minute, EvaluationInterval: 2 * time.Hour}, []string{
			"CheckInterval: 2h0m0s", "ScrapeInterval: 3m0s is not between 1ms and 2m0s", "EvaluationInterval: 2h0m0s",
		}},
		{"timeout beyond the interval", alerts.Params{ScrapeInterval: 5 * time.Second, ScrapeTimeout: 6 * time.Second}, []string{
			"ScrapeTimeout: 6s is not between 1ms and 5s",
		}},
		{"fractions", alerts.Params{CheckInterval: time.Second + 1}, []string{"CheckInterval: 1.000000001s is not a whole number of milliseconds"}},
		{"labels", alerts.Params{GroupBy: []string{"a b", "", "__name__", "instance", "severity", "region", "region"}}, []string{
			`GroupBy: "a b" is not the name of a label`, `GroupBy: "" is not`, `GroupBy: "__name__" is not`, `GroupBy: "instance" has a meaning`,
			`GroupBy: "severity" has a meaning`, `GroupBy: "region" is there twice`,
		}},
		{"selector in braces", alerts.Params{Selector: `{region="eu"}`}, []string{`Selector: "{region=\"eu\"}" is not a list of matchers`}},
		{"selector that ends early", alerts.Params{Selector: `region="eu"} or vector(1) #`}, []string{`Selector: `}},
		{"selector without a comma", alerts.Params{Selector: `a="1" b="2"`}, []string{`Selector: `}},
		{"selector with single quotes", alerts.Params{Selector: `a='1'`}, []string{`Selector: `}},
		{"selector with a bad escape", alerts.Params{Selector: `a="\q"`}, []string{`Selector: "\q" is not a quoted value`}},
		{"selector with a bad pattern", alerts.Params{Selector: `a=~"("`}, []string{`Selector: error parsing regexp`}},
		{"runbooks", alerts.Params{RunbookBaseURL: "docs/runbooks"}, []string{`RunbookBaseURL: "docs/runbooks" is not an http or https URL`}},
		{"runbooks by template", alerts.Params{RunbookBaseURL: "https://a/{{ b }}"}, []string{`RunbookBaseURL: "https://a/{{ b }}" would be taken`}},
		{"format", alerts.Params{Format: "json"}, []string{`Format: "json" is neither "prometheus" nor "prometheusrule"`}},
		{"all at once", alerts.Params{CheckInterval: -1, GroupBy: []string{"job"}, Selector: "x", RunbookBaseURL: "x", Format: "x"}, []string{
			"CheckInterval: ", "GroupBy: ", "Selector: ", "RunbookBaseURL: ", "Format: ",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := alerts.Rules(test.params)
			if err == nil {
				t.Fatal("no error")
			}
			if out != nil {
				t.Errorf("rules in spite of the error:\n%s", out)
			}
			if got := strings.Count(err.Error(), "\n") + 1; got != len(test.want) {
				t.Errorf("%d problems in %q; want %d", got, err, len(test.want))
			}
			for _, want := range append(test.want, "alerts: ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

// The case A58: the expressions use no label that the exporter would have to emit and Prometheus would rename.
func TestSelectorAndLockAreInEverySelector(t *testing.T) {
	with := mustRules(t, alerts.Params{Selector: `region="eu"`, Lock: "other"})
	for _, line := range strings.Split(with, "\n") {
		metrics := strings.Count(line, "plexsphere_") + strings.Count(line, "leader_lock_") + strings.Count(line, "leader_exporter_")
		if strings.Contains(line, "summary: ") || strings.Contains(line, "description: ") {
			continue
		}
		if got := strings.Count(line, `region="eu"}`); got != metrics {
			t.Errorf("%d metrics and %d selectors with the matcher in %q", metrics, got, line)
		}
	}
	if strings.Contains(with, `lock="background-leader"`) || !strings.Contains(with, `lock="other"`) {
		t.Error("the rules watch the default lock, not the one that was named")
	}
}
