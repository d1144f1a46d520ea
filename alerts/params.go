package alerts

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Params are what the rules depend on. The zero value gives the rules that ship.
type Params struct {
	// CheckInterval is the replicas' leader.Config.CheckInterval; zero means 5s.
	CheckInterval time.Duration
	// ScrapeInterval is how often Prometheus scrapes replicas and exporter, the slower of the two; zero means 15s. More than 2m is refused:
	// Prometheus looks back five minutes, and one lost scrape must not make a series vanish.
	ScrapeInterval time.Duration
	// ScrapeTimeout is how long such a scrape may take; zero means 10s, or ScrapeInterval if that is less.
	ScrapeTimeout time.Duration
	// EvaluationInterval is how often Prometheus evaluates the rules; zero means 15s.
	EvaluationInterval time.Duration
	// GroupBy are the labels that together name a deployment, on the metrics of its replicas and on the exporter's; empty means
	// deployment. Prometheus sets them, or for the exporter's metrics its own configuration.
	GroupBy []string
	// Selector are more matchers for every selector, without braces, such as region="eu",env=~"prod.*"; values stand in double quotes.
	Selector string
	// Lock is the value of the label lock under which the exporter watches the leader's lock; empty means background-leader.
	Lock string
	// RunbookBaseURL is the folder of the runbooks; empty means docs/runbooks of this project.
	RunbookBaseURL string
	// Format is the form of the file; empty means FormatPrometheus.
	Format Format
}

// Format is a form in which rules are deployed.
type Format string

// The forms that Rules knows.
const (
	FormatPrometheus     Format = "prometheus"     // a rule file for Prometheus
	FormatPrometheusRule Format = "prometheusrule" // a resource for the Prometheus Operator
)

func (p Params) withDefaults() Params {
	setDefault(&p.CheckInterval, 5*time.Second)
	setDefault(&p.ScrapeInterval, 15*time.Second)
	setDefault(&p.ScrapeTimeout, min(10*time.Second, p.ScrapeInterval))
	setDefault(&p.EvaluationInterval, 15*time.Second)
	setDefault(&p.Lock, "background-leader")
	setDefault(&p.RunbookBaseURL, "https://github.com/plexsphere/leader-exporter/blob/main/docs/runbooks")
	setDefault(&p.Format, FormatPrometheus)
	if len(p.GroupBy) == 0 {
		p.GroupBy = []string{"deployment"}
	}
	p.Selector = strings.TrimSuffix(strings.TrimSpace(p.Selector), ",")
	p.RunbookBaseURL = strings.TrimRight(p.RunbookBaseURL, "/")
	return p
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate returns all problems of parameters that have their defaults.
func (p Params) validate() error {
	return errors.Join(
		checkInterval("CheckInterval", p.CheckInterval, time.Hour),
		checkInterval("ScrapeInterval", p.ScrapeInterval, 2*time.Minute),
		checkInterval("ScrapeTimeout", p.ScrapeTimeout, p.ScrapeInterval),
		checkInterval("EvaluationInterval", p.EvaluationInterval, time.Hour),
		checkGroupBy(p.GroupBy),
		of("Selector", checkSelector(p.Selector)),
		checkRunbookBaseURL(p.RunbookBaseURL),
		checkFormat(p.Format),
	)
}

// of says whose problem it is.
func of(parameter string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", parameter, err)
}

func checkInterval(name string, d, most time.Duration) error {
	switch {
	case d < time.Millisecond || d > most:
		return fmt.Errorf("%s: %s is not between 1ms and %s", name, d, most)
	case d%time.Millisecond != 0:
		return fmt.Errorf("%s: %s is not a whole number of milliseconds, as Prometheus has them", name, d)
	}
	return nil
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// checkGroupBy refuses the labels that tell series of one deployment apart, or that alerts get from elsewhere.
func checkGroupBy(labels []string) error {
	taken := []string{
		"instance", "job", "target", "datname", "lock", "loop", "result", "worker", "reason", "client_addr", "application_name", "usename",
		"severity", "alertname", "alertstate",
	}
	var problems []error
	for i, label := range labels {
		switch {
		case !labelName.MatchString(label) || strings.HasPrefix(label, "__"):
			problems = append(problems, fmt.Errorf("GroupBy: %q is not the name of a label", label))
		case slices.Contains(taken, label):
			problems = append(problems, fmt.Errorf("GroupBy: %q has a meaning of its own and cannot name a deployment", label))
		case slices.Contains(labels[:i], label):
			problems = append(problems, fmt.Errorf("GroupBy: %q is there twice", label))
		}
	}
	return errors.Join(problems...)
}

var matcher = regexp.MustCompile(`^\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")\s*(,|$)`)

func checkSelector(selector string) error {
	for rest := selector; strings.TrimSpace(rest) != ""; {
		found := matcher.FindStringSubmatch(rest)
		if found == nil {
			return fmt.Errorf(`%q is not a list of matchers such as region="eu",env=~"prod.*"`, selector)
		}
		value, err := strconv.Unquote(found[2])
		if err != nil {
			return fmt.Errorf("%s is not a quoted value", found[2])
		}
		if _, err := regexp.Compile(value); err != nil && strings.Contains(found[1], "~") {
			return err
		}
		rest = rest[len(found[0]):]
	}
	return nil
}

func checkRunbookBaseURL(base string) error {
	parsed, err := url.Parse(base)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return fmt.Errorf("RunbookBaseURL: %q is not an http or https URL", base)
	}
	if strings.Contains(base, "{{") {
		return fmt.Errorf("RunbookBaseURL: %q would be taken for a template", base)
	}
	return nil
}

func checkFormat(f Format) error {
	if f != FormatPrometheus && f != FormatPrometheusRule {
		return fmt.Errorf("Format: %q is neither %q nor %q", f, FormatPrometheus, FormatPrometheusRule)
	}
	return nil
}
