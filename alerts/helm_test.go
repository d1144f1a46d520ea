package alerts_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"text/template"

	"github.com/plexsphere/leader-exporter/alerts"
)

// chart is what a template of Helm, which is one of text/template, sees of its chart.
type chart struct{ Files files }

type files map[string]string

// Get returns a file as it is.
func (f files) Get(name string) string { return f[name] }

// The case A40: Helm has templates of the same form as the annotations. The line that the document shows prints the rules with each of them intact; as a
// template itself the file is an error, so nobody ships it changed without knowing.
func TestChartPrintsTheRulesAsTheyAre(t *testing.T) {
	rules, err := alerts.Rules(alerts.Params{Format: alerts.FormatPrometheusRule})
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^\{\{ \.Files\.Get "(.*)" \}\}$`).FindStringSubmatch(string(content))
	if shown == nil {
		t.Fatal("the document shows no template")
	}
	var printed strings.Builder
	if err := template.Must(template.New("chart").Parse(shown[0])).Execute(&printed, chart{files{shown[1]: string(rules)}}); err != nil {
		t.Fatal(err)
	}
	if printed.String() != string(rules) || !strings.Contains(printed.String(), "{{ $labels.deployment }}") {
		t.Errorf("the chart prints\n%s", &printed)
	}
	if _, err := template.New("rules").Parse(string(rules)); err == nil {
		t.Error("the rules are a template of Helm, which would change them in silence")
	}
}
