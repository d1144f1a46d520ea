package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/plexsphere/leader-exporter/alerts"
	"github.com/plexsphere/leader-exporter/deploy/prometheus"
	"github.com/plexsphere/leader-exporter/internal/child"
	"github.com/plexsphere/leader-exporter/internal/freeport"
)

const (
	// scrapeEvery is Prometheus's time between two scrapes, and between two evaluations of the rules.
	scrapeEvery = time.Second
	// groupWait exceeds one scrape and one evaluation, by which an alert may lag behind what it mutes.
	groupWait = 3 * time.Second
	// groupInterval is how soon more is told of a deployment of which something was told.
	groupInterval = 2 * time.Second
)

// monitor is a Prometheus that watches deployments, an Alertmanager, and who is paged.
type monitor struct {
	workshop
	opts upOptions

	prometheus, alertmanager    *child.Child
	promethAddr, alertmanagAddr string
	pages                       *pager
}

// startMonitor starts all parts. Close what it returns, also after an error.
func startMonitor(folder string, opts upOptions, deployments ...*deployment) (*monitor, error) {
	m := &monitor{workshop: workshop{folder}, opts: opts}
	var err error
	if m.pages, err = startPager(); err != nil {
		return m, err
	}
	return m, errors.Join(m.startAlertmanager(), m.startPrometheus(deployments))
}

func (m *monitor) startAlertmanager() error {
	var err error
	if m.alertmanagAddr, err = freeport.Address(); err != nil {
		return err
	}
	content, err := alertmanagerConfig(m.pages.url())
	if err != nil {
		return err
	}
	config, err := m.write("alertmanager.yml", content)
	if err != nil {
		return err
	}
	m.alertmanager, err = m.start("alertmanager", m.opts.alertmanager, nil,
		"--config.file="+config, "--storage.path="+m.path("alertmanager"), "--web.listen-address="+m.alertmanagAddr, "--cluster.listen-address=")
	return err
}

// alertmanagerConfig returns the example that ships, for short intervals and with one receiver's address.
func alertmanagerConfig(receiver string) ([]byte, error) {
	var config struct {
		Route     map[string]any `yaml:"route"`
		Inhibit   []any          `yaml:"inhibit_rules"`
		Receivers []struct {
			Name     string           `yaml:"name"`
			Webhooks []map[string]any `yaml:"webhook_configs"`
		} `yaml:"receivers"`
	}
	if err := yaml.Unmarshal([]byte(alerts.AlertmanagerExample()), &config); err != nil {
		return nil, err
	}
	config.Route["group_wait"], config.Route["group_interval"] = groupWait.String(), groupInterval.String()
	for _, r := range config.Receivers {
		for _, webhook := range r.Webhooks {
			webhook["url"] = receiver
		}
	}
	return yaml.Marshal(config)
}

// rules returns the alert rules for the intervals of the replicas and of this Prometheus.
func (o upOptions) rules() ([]byte, error) {
	return alerts.Rules(alerts.Params{CheckInterval: o.checkInterval, ScrapeInterval: scrapeEvery, EvaluationInterval: scrapeEvery})
}

func (m *monitor) startPrometheus(deployments []*deployment) error {
	var err error
	if m.promethAddr, err = freeport.Address(); err != nil {
		return err
	}
	setup := prometheus.Setup{ScrapeInterval: scrapeEvery, EvaluationInterval: scrapeEvery, Alertmanagers: []string{m.alertmanagAddr}}
	for _, d := range deployments {
		watched := prometheus.Deployment{Name: d.name, Exporters: []string{d.exporterAddr}}
		for _, r := range d.replicas {
			watched.Replicas = append(watched.Replicas, r.address)
		}
		setup.Deployments = append(setup.Deployments, watched)
	}
	content, err := prometheus.Config(setup)
	if err != nil {
		return err
	}
	rules, err := m.opts.rules()
	if err != nil {
		return err
	}
	if _, err := m.write(prometheus.RuleFile, rules); err != nil {
		return err
	}
	config, err := m.write("prometheus.yml", content)
	if err != nil {
		return err
	}
	m.prometheus, err = m.start("prometheus", m.opts.prometheus, nil,
		"--config.file="+config, "--storage.tsdb.path="+m.path("prometheus"), "--web.listen-address="+m.promethAddr)
	return err
}

// query asks Prometheus, and returns its answer as JSON.
func (m *monitor) query(ctx context.Context, promql string) (string, error) {
	return fetch(ctx, "http://"+m.promethAddr+"/api/v1/query?query="+url.QueryEscape(promql))
}

// scrapes reports whether Prometheus has scraped every target of the deployment.
func (m *monitor) scrapes(ctx context.Context, d *deployment) bool {
	answer, err := m.query(ctx, fmt.Sprintf(`sum(up{deployment=%q}) == %d`, d.name, len(d.replicas)+1))
	return err == nil && !emptyAnswer(answer)
}

// fault returns an error when a part has ended.
func (m *monitor) fault() error {
	return errors.Join(m.ended("prometheus", m.prometheus), m.ended("alertmanager", m.alertmanager))
}

// close stops all parts, and the pager last.
func (m *monitor) close() error {
	err := stop(m.prometheus, m.alertmanager)
	if m.pages != nil {
		m.pages.close()
	}
	return err
}
