package alerts_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
)

// equivalents are the changes that change nothing, each with the reason. By alert, then by what the mutant is called.
func equivalents() map[string]map[string]string {
	const (
		noneOfNone = "a sum of claims is 0 when the greatest of them is; the words are those of the other rules"
		oneIsOne   = "passes that succeed have one result"
		otherSide  = "the other side of the minus has the matcher, and only equal labels meet"
	)
	claims := "labels 2, deployment, instance, becomes deployment"
	lock := `matchers %d, {lock="background-leader"}, becomes `
	labels := "labels %d, deployment, instance, loop, result, becomes "
	return map[string]map[string]string{
		"BackgroundLeaderMissing":   {claims: noneOfNone},
		"BackgroundLeaderUnclaimed": {claims: noneOfNone},
		"BackgroundLeaderFlapping": {
			"comparison 1, >, becomes >=":  "a number of changes is no half, but for a hair that increase() adds",
			fmt.Sprintf(lock, 1):           otherSide,
			fmt.Sprintf(lock, 2):           otherSide,
			"step 1, 15s, becomes 7500ms":  "replicas stay for longer than a step",
			"step 1, 15s, becomes 30000ms": "replicas stay for longer than a step",
		},
		"LeaderExporterDown": {"operator 3, +, becomes -": "what is added is 0"},
		"BackgroundLoopFailing": {
			"comparison 2, >, becomes >=":                         "a number of failures is no half, but for a hair that increase() adds",
			fmt.Sprintf(labels, 4) + "deployment, instance, loop": oneIsOne,
			fmt.Sprintf(labels, 8) + "deployment, instance, loop": oneIsOne,
			fmt.Sprintf(labels, 8) + "deployment, loop, result":   "a sum of successes is 0 when the greatest of them is",
		},
	}
}

// Issue 6: every mutated comparison, label list, duration and line is caught by the promtool tests of its alert.
//
// All mutants of an alert stand in one rule file, each under a name of its own, and each test asks for all of them: a promtool run for each
// mutant would take minutes.
func TestLoadEachChangeOfARuleIsCaught(t *testing.T) {
	t.Parallel()
	for _, rule := range shippedRules(t) {
		t.Run(rule.Alert, func(t *testing.T) {
			t.Parallel()
			all := append([]mutant{{"no change", rule}}, mutants(t, rule)...)
			survivors := uncaught(t, rule.Alert, all)
			reasons := equivalents()[rule.Alert]
			if !survivors[0] {
				t.Fatal("the tests fail without a change")
			}
			for i, mutant := range all[1:] {
				reason, excused := reasons[mutant.name]
				delete(reasons, mutant.name)
				switch survived := survivors[i+1]; {
				case survived && !excused:
					t.Errorf("no promtool test notices that %s, in\n%s", mutant.name, mutant.rule.Expr)
				case !survived && excused:
					t.Errorf("it is noticed that %s, although %s", mutant.name, reason)
				}
			}
			for name := range reasons {
				t.Errorf("%q is no mutant any more", name)
			}
		})
	}
}

// uncaught returns which of the mutants, by index, no promtool test of the alert notices.
func uncaught(t *testing.T, alert string, mutants []mutant) map[int]bool {
	t.Helper()
	alive := map[int]bool{}
	for i := range mutants {
		alive[i] = true
	}
	named := regexp.MustCompile(alert + `__(\d+)\b`)
	bury := func(out string) {
		for _, match := range named.FindAllStringSubmatch(out, -1) {
			i, err := strconv.Atoi(match[1])
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 && alive[0] {
				t.Errorf("without a change:\n%.3000s", out)
			}
			delete(alive, i)
		}
	}

	dir := t.TempDir()
	if out, err := promtool(t, "check", "rules", writeMutants(t, dir, mutants, alive)); err != nil {
		bury(out)
	}
	for _, file := range testFiles(t, alert) {
		// A test ends at the first rule that cannot be evaluated, so it runs until nothing fails.
		for len(alive) > 0 {
			writeMutants(t, dir, mutants, alive)
			out, err := promtool(t, "test", "rules", writeTests(t, dir, file, alert, alive))
			if err == nil {
				break
			}
			before := len(alive)
			bury(out)
			if len(alive) == before {
				t.Fatalf("%v, and no mutant is named:\n%.2000s", err, out)
			}
		}
	}
	return alive
}

func writeMutants(t *testing.T, dir string, mutants []mutant, alive map[int]bool) string {
	t.Helper()
	group := shippedGroup{Name: "mutated"}
	for _, i := range slices.Sorted(maps.Keys(alive)) {
		rule := mutants[i].rule
		rule.Alert += "__" + strconv.Itoa(i)
		rule.Expr = strings.TrimSpace(rule.Expr) // yaml.v3 cannot write a text of several lines that begins with a blank
		group.Rules = append(group.Rules, rule)
	}
	content, err := yaml.Marshal(shippedFile{[]shippedGroup{group}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, shipped)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeTests writes the file with each expectation once for each mutant.
func writeTests(t *testing.T, dir, file, alert string, alive map[int]bool) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var suite map[string]any
	if err := yaml.Unmarshal(content, &suite); err != nil {
		t.Fatal(err)
	}
	suite["rule_files"] = []string{shipped}
	for _, test := range suite["tests"].([]any) {
		test := test.(map[string]any)
		for _, kind := range []string{"alert_rule_test", "promql_expr_test"} {
			expectations, _ := test[kind].([]any)
			var forAll []any
			for _, expectation := range expectations {
				for i := range alive {
					one := maps.Clone(expectation.(map[string]any))
					for _, field := range []string{"alertname", "expr"} {
						if text, ok := one[field].(string); ok {
							one[field] = strings.ReplaceAll(text, alert, fmt.Sprintf("%s__%d", alert, i))
						}
					}
					forAll = append(forAll, one)
				}
			}
			test[kind] = forAll
		}
	}
	content, err = yaml.Marshal(suite)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// mutant is a rule with one change.
type mutant struct {
	name string
	rule shippedRule
}

func mutants(t *testing.T, rule shippedRule) []mutant {
	t.Helper()
	var all []mutant
	for _, m := range mutations() {
		for n, at := range m.pattern.FindAllStringSubmatchIndex(rule.Expr, -1) {
			old := rule.Expr[at[2]:at[3]]
			for _, replacement := range m.replace(old) {
				changed := rule
				changed.Expr = rule.Expr[:at[2]] + replacement + rule.Expr[at[3]:]
				all = append(all, mutant{fmt.Sprintf("%s %d, %s, becomes %s", m.what, n+1, old, replacement), changed})
			}
		}
	}
	lines := strings.SplitAfter(strings.TrimSuffix(rule.Expr, "\n"), "\n")
	for i := range lines {
		changed := rule
		changed.Expr = strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "")
		all = append(all, mutant{fmt.Sprintf("line %d is gone", i+1), changed})
	}
	if strings.Count(rule.Expr, "{") > 1 {
		changed := rule
		changed.Expr = regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(rule.Expr, "")
		all = append(all, mutant{"all matchers are gone", changed})
	}
	for _, by := range changes(t, rule.For) {
		changed := rule
		changed.For = by
		all = append(all, mutant{"for " + by, changed})
	}
	for _, by := range changes(t, rule.Keep) {
		changed := rule
		changed.Keep = by
		all = append(all, mutant{"keep_firing_for " + by, changed})
	}
	return all
}

// changes returns none of it, and an evaluation less and more. What is not there does not change.
func changes(t *testing.T, text string) (changed []string) {
	t.Helper()
	if text == "" {
		return nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []time.Duration{-wait, -15 * time.Second, 15 * time.Second} {
		changed = append(changed, strconv.Itoa(int((wait+by).Seconds()))+"s")
	}
	return changed
}

// mutation finds something in an expression, as the first group of its pattern, and says what else could stand there.
type mutation struct {
	what    string
	pattern *regexp.Regexp
	replace func(old string) []string
}

func mutations() []mutation {
	other := func(table map[string][]string) func(string) []string {
		return func(old string) []string { return table[old] }
	}
	return []mutation{
		{"comparison", regexp.MustCompile(`(?m)(?:^|\s)(==|>)(?:\s|$)`), other(map[string][]string{"==": {"!="}, ">": {">=", "<"}})},
		{"operator", regexp.MustCompile(`(?m)\s(unless|and|or|-|\+|\*)\s`), other(map[string][]string{
			"unless": {"and"}, "and": {"unless", "or"}, "or": {"and", "unless"}, "-": {"+"}, "+": {"-"}, "*": {"+"},
		})},
		{"number", regexp.MustCompile(`(?m)(?:^|\s)(\d+(?:\.\d+)?)(?:\s|$)`), func(old string) []string {
			n, err := strconv.ParseFloat(old, 64)
			if err != nil {
				panic(err)
			}
			return []string{fmt.Sprint(n - 1), fmt.Sprint(n + 1)}
		}},
		{"labels", regexp.MustCompile(`by \(([^)]*)\)`), func(old string) []string {
			labels := strings.Split(old, ", ")
			var fewer []string
			for i := range labels {
				fewer = append(fewer, strings.Join(slices.Delete(slices.Clone(labels), i, i+1), ", "))
			}
			return fewer
		}},
		{"matchers", regexp.MustCompile(`(\{[^}]*\})`), func(string) []string { return []string{""} }},
		{"range", regexp.MustCompile(`\[(\w+)[\]:]`), halfAndDouble},
		{"step", regexp.MustCompile(`:(\w+)\]`), halfAndDouble},
	}
}

func halfAndDouble(old string) []string {
	d, err := time.ParseDuration(old)
	if err != nil {
		panic(err)
	}
	return []string{fmt.Sprintf("%dms", (d / 2).Milliseconds()), fmt.Sprintf("%dms", (d * 2).Milliseconds())}
}
