package alerts

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Rules returns the alert rules for these intervals and labels as YAML, the same for the same Params. It fails when a parameter is
// wrong, and then names each that is. It may be called from any goroutine.
func Rules(p Params) ([]byte, error) {
	p = p.withDefaults()
	if err := p.validate(); err != nil {
		return nil, fmt.Errorf("alerts: %w", err)
	}
	body := file{Groups: []group{{Name: "background-leader", Interval: promDuration(p.EvaluationInterval), Rules: newWriter(p).rules()}}}

	out := bytes.NewBufferString(head(p))
	enc := yaml.NewEncoder(out)
	enc.SetIndent(2)
	var document any = body
	if p.Format == FormatPrometheusRule {
		document = resource{"monitoring.coreos.com/v1", "PrometheusRule", metadata{"background-leader"}, body}
	}
	if err := enc.Encode(document); err != nil {
		return nil, fmt.Errorf("alerts: write rules: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("alerts: write rules: %w", err)
	}
	return out.Bytes(), nil
}

// head says what the rules were made for: with other intervals they would be others.
func head(p Params) string {
	lines := []string{
		"# Alerts for the background leader. Generated: change package alerts, or write your own with",
		fmt.Sprintf("# leader-exporter rules --check-interval=%s --scrape-interval=%s --evaluation-interval=%s",
			promDuration(p.CheckInterval), promDuration(p.ScrapeInterval), promDuration(p.EvaluationInterval)),
		fmt.Sprintf("# A scrape may take %s. Deployments are told apart by: %s.", promDuration(p.ScrapeTimeout), strings.Join(p.GroupBy, ", ")),
	}
	return strings.Join(lines, "\n") + "\n"
}

// file is a rule file of Prometheus.
type file struct {
	Groups []group `yaml:"groups"`
}

// resource is the form in which the Prometheus Operator takes a rule file.
type resource struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
	Spec       file     `yaml:"spec"`
}

type metadata struct {
	Name string `yaml:"name"`
}

type group struct {
	Name     string `yaml:"name"`
	Interval string `yaml:"interval"`
	Rules    []rule `yaml:"rules"`
}

// rule is one alert. In summary and description, a reference to a label needs that label on the result of expr.
type rule struct {
	name     string
	severity severity
	expr     []string
	wait     time.Duration // the rule's `for`
	keep     time.Duration // the rule's `keep_firing_for`
	because  string        // how wait and the ranges follow from the intervals

	summary, description string
	runbook              string
}

// severity is who learns of an alert, and when.
type severity string

const (
	critical severity = "critical" // background work stands still, may be done twice, or nobody can tell: wake somebody
	warning  severity = "warning"  // it will not mend itself, and can wait for the morning
)

// MarshalYAML implements yaml.Marshaler, for the comment.
func (r rule) MarshalYAML() (any, error) {
	var node yaml.Node
	err := node.Encode(struct {
		Alert       string            `yaml:"alert"`
		Expr        string            `yaml:"expr"`
		For         string            `yaml:"for,omitempty"`
		Keep        string            `yaml:"keep_firing_for,omitempty"`
		Labels      map[string]string `yaml:"labels"`
		Annotations annotations       `yaml:"annotations"`
	}{
		Alert:       r.name,
		Expr:        strings.Join(r.expr, "\n") + "\n",
		For:         waitText(r.wait),
		Keep:        waitText(r.keep),
		Labels:      map[string]string{"severity": string(r.severity)},
		Annotations: annotations{r.summary, r.description, r.runbook},
	})
	node.HeadComment = r.because
	return &node, err
}

type annotations struct {
	Summary     string `yaml:"summary"`
	Description string `yaml:"description"`
	RunbookURL  string `yaml:"runbook_url"`
}

// waitText returns the text of `for` or `keep_firing_for`, which a rule goes without where it is 0.
func waitText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return promDuration(d)
}

// promDuration returns d in the form that Prometheus reads, which has no fractions.
func promDuration(d time.Duration) string {
	var b strings.Builder
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if n := d / unit.length; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, unit.name)
			d -= n * unit.length
		}
	}
	return b.String()
}
