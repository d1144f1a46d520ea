package alerts_test

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/alerts"
)

const document = "../docs/alerts.md"

// row is a line of the document's table.
type row struct{ runbook, severity, wait, formula string }

func rows(t *testing.T) map[string]row {
	t.Helper()
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]row{}
	pattern := regexp.MustCompile("(?m)^\\| \\[(\\w+)\\]\\(runbooks/(\\w+)\\.md\\) \\| (\\w+) \\| (\\S+) \\| (?:window )?`([^`]*)` \\| .* \\|$")
	for _, match := range pattern.FindAllStringSubmatch(string(content), -1) {
		found[match[1]] = row{match[2], match[3], match[4], match[5]}
	}
	return found
}

func TestTableOfTheDocumentIsThatOfTheRules(t *testing.T) {
	table := rows(t)
	rules := shippedRules(t)
	if len(table) != len(rules) {
		t.Errorf("%d rows and %d alerts", len(table), len(rules))
	}
	for _, rule := range rules {
		want := row{rule.Alert, rule.Labels["severity"], rule.For, table[rule.Alert].formula}
		if want.wait == "" {
			want.wait = "–"
		}
		if got := table[rule.Alert]; got != want {
			t.Errorf("%s: %q; want %q", rule.Alert, got, want)
		}
	}
}

// The formulas hold at any intervals, to the rounding.
func TestFormulasOfTheDocumentAreThoseOfTheRules(t *testing.T) {
	formulas := map[string]func(ci, s, timeout, e time.Duration) time.Duration{
		"5 CI + S + T + E":             func(ci, s, timeout, e time.Duration) time.Duration { return 5*ci + s + timeout + e },
		"2 (5 CI + S + T + E)":         func(ci, s, timeout, e time.Duration) time.Duration { return 2 * (5*ci + s + timeout + e) },
		"max(2 CI + S + T, 2.1 S) + E": func(ci, s, timeout, e time.Duration) time.Duration { return max(2*ci+s+timeout, s*21/10) + e },
		"S + E":                        func(_, s, _, e time.Duration) time.Duration { return s + e },
		"2 CI + S + E":                 func(ci, s, _, e time.Duration) time.Duration { return 2*ci + s + e },
		"max(60 CI, 20 S)":             func(ci, s, _, _ time.Duration) time.Duration { return max(60*ci, 20*s) },
		"max(180 CI, 60 S)":            func(ci, s, _, _ time.Duration) time.Duration { return max(180*ci, 60*s) },
	}
	random := seeded(t)
	table := rows(t)
	for _, p := range []alerts.Params{randomParams(random), randomParams(random), randomParams(random)} {
		for alert, wait := range waits(t, p) {
			formula, known := formulas[table[alert].formula]
			if !known {
				t.Fatalf("%s: this test does not know %q", alert, table[alert].formula)
			}
			if least := formula(p.CheckInterval, p.ScrapeInterval, p.ScrapeTimeout, p.EvaluationInterval); wait < least || wait >= least+2*time.Second {
				t.Errorf("%s waits %s with %+v; %s is %s", alert, wait, p, table[alert].formula, least)
			}
		}
	}
}
