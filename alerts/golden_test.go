package alerts_test

import (
	"testing"

	"github.com/plexsphere/leader-exporter/alerts"
	"github.com/plexsphere/leader-exporter/internal/golden"
)

func TestShippedRulesAreThoseOfTheDefaults(t *testing.T) {
	golden.Require(t, "../background-leader.rules.yaml", mustRules(t, alerts.Params{}))
}

func TestRulesForTheOperatorAndOtherLabels(t *testing.T) {
	golden.Require(t, "operator.golden", mustRules(t, alerts.Params{
		GroupBy: []string{"region", "deployment"}, Selector: `env=~"prod|stage", team!="x",`, Lock: "plxs",
		RunbookBaseURL: "https://wiki.example.org/runbooks/", Format: alerts.FormatPrometheusRule,
	}))
}

func mustRules(tb testing.TB, p alerts.Params) string {
	tb.Helper()
	out, err := alerts.Rules(p)
	if err != nil {
		tb.Fatal(err)
	}
	return string(out)
}
