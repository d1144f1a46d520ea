package alerts_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plexsphere/leader-exporter/alerts"
)

// The case A59.
func TestEachAlertHasARunbookAndEachRunbookAnAlert(t *testing.T) {
	sections := []string{"## What it means", "## What to look at", "## What to do", "## What not to do", "## How to know that it is over"}
	files, err := filepath.Glob("../docs/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := shippedRules(t)
	if len(files) != len(rules) {
		t.Errorf("%d runbooks and %d alerts", len(files), len(rules))
	}
	for _, rule := range rules {
		_, file, found := strings.Cut(rule.Annotations["runbook_url"], "/blob/main/")
		if !found || filepath.Base(file) != rule.Alert+".md" {
			t.Errorf("%s has the runbook_url %q", rule.Alert, rule.Annotations["runbook_url"])
			continue
		}
		content, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Errorf("%s: %v", rule.Alert, err)
			continue
		}
		for _, section := range sections {
			_, rest, found := strings.Cut(string(content), "\n"+section+"\n")
			body, _, _ := strings.Cut(rest, "\n## ")
			if !found || strings.TrimSpace(body) == "" {
				t.Errorf("%s says nothing under %q", file, section)
			}
		}
		if !strings.Contains(string(content), "leader-exporter check") && strings.HasPrefix(rule.Alert, "BackgroundLeader") {
			t.Errorf("%s does not say what leader-exporter check tells", file)
		}
	}
}

func TestRunbookURLsBeginWithTheBaseThatWasGiven(t *testing.T) {
	out := mustRules(t, alerts.Params{RunbookBaseURL: "https://wiki.example.org/alerts//"})
	if got := strings.Count(out, "runbook_url: https://wiki.example.org/alerts/"); got != 14 || strings.Contains(out, "alerts//") {
		t.Errorf("%d runbooks under the base in\n%s", got, out)
	}
}

// Every alert has one firing case whose annotations promtool compares to the letter; here they are held to what a person needs.
func TestExpandedAnnotationsAreSentencesThatSayWhereAndSinceWhen(t *testing.T) {
	for _, rule := range shippedRules(t) {
		expanded := map[string]string{}
		for _, file := range testFiles(t, rule.Alert) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile(`(?m)^ +(summary|description|runbook_url): (.*)$`).FindAllStringSubmatch(string(content), -1) {
				expanded[match[1]] = strings.Trim(match[2], `'`)
			}
		}
		since := "For at least " + rule.For
		if rule.For == "" {
			since = "Within the last 20m"
		}
		for _, annotation := range []string{"summary", "description"} {
			text := expanded[annotation]
			if !regexp.MustCompile(`^[A-Z].*\.$`).MatchString(text) || regexp.MustCompile(`{{|<no value>|  | ,|\s\.|%!`).MatchString(text) {
				t.Errorf("%s: the %s %q is no sentence", rule.Alert, annotation, text)
			}
			if !strings.Contains(text, "deployment prod") {
				t.Errorf("%s: the %s %q does not name the deployment", rule.Alert, annotation, text)
			}
		}
		if text := expanded["description"]; !strings.Contains(strings.ToLower(text), strings.ToLower(strings.TrimPrefix(since, "F"))) {
			t.Errorf("%s: the description %q does not say since when: %q", rule.Alert, text, since)
		}
		if !strings.Contains(rule.Annotations["description"], "{{ $value") {
			t.Errorf("%s: the description has no value", rule.Alert)
		}
		if strings.Contains(expanded["summary"], "{{ $value") {
			t.Errorf("%s: the summary has a value: every evaluation would change it", rule.Alert)
		}
	}
}
