package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/plexsphere/leader-exporter/alerts"
	"github.com/plexsphere/leader-exporter/cmd/leader-exporter/config"
)

// rulesFlags declares the flags of rules. What is not given has the default of package alerts.
func rulesFlags(cmd *kingpin.CmdClause) *alerts.Params {
	p := &alerts.Params{}
	for _, flag := range []struct {
		name, help string
		value      *time.Duration
	}{
		{"check-interval", "The replicas' CheckInterval; by default the file's check_interval, else 5s.", &p.CheckInterval},
		{"scrape-interval", "How often Prometheus scrapes replicas and exporter, the slower of the two; 15s by default.", &p.ScrapeInterval},
		{"scrape-timeout", "How long a scrape may take; by default 10s, or --scrape-interval if that is less.", &p.ScrapeTimeout},
		{"evaluation-interval", "How often Prometheus evaluates the rules; 15s by default.", &p.EvaluationInterval},
	} {
		cmd.Flag(flag.name, flag.help).PlaceHolder("DURATION").SetValue(&duration{flag: flag.name, value: flag.value})
	}
	cmd.Flag("group-by", "A label that names a deployment; may be given more than once. By default deployment.").PlaceHolder("LABEL").StringsVar(&p.GroupBy)
	cmd.Flag("selector", `More matchers for every selector, such as region="eu",env=~"prod.*".`).PlaceHolder("MATCHERS").StringVar(&p.Selector)
	cmd.Flag("lock", "The name under which the leader's lock is watched; background-leader by default.").PlaceHolder("NAME").StringVar(&p.Lock)
	cmd.Flag("runbook-base-url", "The folder of the runbooks; by default docs/runbooks of this project.").PlaceHolder("URL").StringVar(&p.RunbookBaseURL)
	cmd.Flag("format", "prometheus for a rule file, prometheusrule for a resource of the Prometheus Operator.").
		Default(string(alerts.FormatPrometheus)).EnumVar((*string)(&p.Format), string(alerts.FormatPrometheus), string(alerts.FormatPrometheusRule))
	return p
}

// rules prints the alert rules.
func rules(opts options, p alerts.Params, stdout, stderr io.Writer) int {
	if p.CheckInterval == 0 && opts.configFile != "" {
		c, err := config.Load(opts.configFile)
		if err != nil {
			printProblems(stderr, err)
			return exitFailed
		}
		p.CheckInterval = c.CheckInterval
	}
	file, err := alerts.Rules(p)
	if err != nil {
		printProblems(stderr, errors.New(flagNames().Replace(err.Error())))
		return exitFailed
	}
	if _, err := stdout.Write(file); err != nil {
		fmt.Fprintf(stderr, "leader-exporter: rules: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// flagNames turns the names of parameters, as package alerts complains of them, into those of the flags.
func flagNames() *strings.Replacer {
	return strings.NewReplacer("alerts: ", "rules: ", "CheckInterval: ", "--check-interval: ", "ScrapeInterval: ", "--scrape-interval: ",
		"ScrapeTimeout: ", "--scrape-timeout: ", "EvaluationInterval: ", "--evaluation-interval: ", "GroupBy: ", "--group-by: ",
		"Selector: ", "--selector: ", "RunbookBaseURL: ", "--runbook-base-url: ")
}
