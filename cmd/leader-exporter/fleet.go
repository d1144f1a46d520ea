package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/plexsphere/leader-exporter/cmd/leader-exporter/config"
	"github.com/plexsphere/leader-exporter/collector"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// fleet runs the watchers of all targets. A reload keeps those whose target is as it was, with all that they know.
type fleet struct {
	opts   options
	logger *slog.Logger

	gatherer   atomic.Pointer[prometheus.Registry] // of the present targets
	reloaded   prometheus.Gauge
	reloadedAt prometheus.Gauge

	mu      sync.Mutex // guards the fields below; held through a reload
	members map[string]*member
	closed  bool
}

// member is a watcher that runs.
type member struct {
	spec    spec
	watcher *lockwatch.Watcher
	stop    context.CancelFunc
	ended   chan struct{}
}

// spec is everything that a watcher depends on: where it is the same, the watcher goes on.
type spec struct {
	target                    config.Target
	pollInterval, pollTimeout time.Duration
}

// newFleet returns a fleet that has not loaded its targets yet.
func newFleet(opts options, logger *slog.Logger) *fleet {
	return &fleet{
		opts: opts, logger: logger, members: make(map[string]*member),
		reloaded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "leader_exporter_config_last_reload_successful", Help: "1 if the last attempt to load the configuration succeeded, else 0.",
		}),
		reloadedAt: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "leader_exporter_config_last_reload_success_timestamp_seconds", Help: "When the configuration was last loaded.",
		}),
	}
}

// load reads the configuration and makes the fleet follow it. After an error everything is as before. A watcher that is not the
// same any more has ended when load returns.
func (f *fleet) load(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errors.New("the exporter stops")
	}
	next, err := f.prepare()
	if err != nil {
		f.reloaded.Set(0)
		return err
	}
	for name, m := range f.members {
		if next[name] != m {
			m.stop()
			<-m.ended
		}
	}
	for name, m := range next {
		if f.members[name] != m {
			m.run()
			f.logger.InfoContext(ctx, "watching", slog.String("target", name), slog.Int("locks", len(m.spec.target.Locks)))
		}
	}
	f.members = next
	f.reloaded.Set(1)
	f.reloadedAt.SetToCurrentTime()
	f.publish()
	return nil
}

// prepare returns the members that the configuration asks for: those that run where nothing changed, else new ones.
func (f *fleet) prepare() (map[string]*member, error) {
	specs, err := f.opts.specs()
	if err != nil {
		return nil, err
	}
	next := make(map[string]*member)
	for _, s := range specs {
		name := s.target.Name
		if m := f.members[name]; m != nil && reflect.DeepEqual(m.spec, s) {
			next[name] = m
			continue
		}
		watcher, err := s.watcher(f.opts, f.logger, nil)
		if err != nil {
			return nil, err
		}
		next[name] = &member{spec: s, watcher: watcher, ended: make(chan struct{})}
	}
	return next, nil
}

// run starts the member's watcher.
func (m *member) run() {
	ctx, cancel := context.WithCancel(context.Background()) // close and load end it
	m.stop = cancel
	go func() {
		defer close(m.ended)
		_ = m.watcher.Run(ctx) // it never returns an error
	}()
}

// publish makes the present targets those of the next scrape.
func (f *fleet) publish() {
	var targets []collector.Target
	for _, name := range slices.Sorted(maps.Keys(f.members)) {
		m := f.members[name]
		targets = append(targets, collector.Target{Name: name, Labels: m.spec.target.Labels, Source: m.watcher})
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(f.reloaded, f.reloadedAt, collector.New(targets))
	f.gatherer.Store(registry)
}

// Gather implements prometheus.Gatherer over the present targets, once some were loaded.
func (f *fleet) Gather() ([]*dto.MetricFamily, error) { return f.gatherer.Load().Gather() }

// close ends all watchers.
func (f *fleet) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, m := range f.members {
		m.stop()
	}
	for _, m := range f.members {
		<-m.ended
	}
}

// specs reads the configuration. What a flag sets wins over the file.
func (o options) specs() ([]spec, error) {
	c, err := config.Load(o.configFile)
	if err != nil {
		return nil, err
	}
	var specs []spec
	for _, target := range c.Targets {
		specs = append(specs, spec{
			target:       target,
			pollInterval: cmp.Or(o.pollInterval, c.PollInterval, lockwatch.DefaultPollInterval),
			pollTimeout:  cmp.Or(o.pollTimeout, c.PollTimeout, lockwatch.DefaultPollTimeout),
		})
	}
	return specs, nil
}

// watcher makes the watcher of a target. onSnapshot may be nil.
func (s spec) watcher(opts options, logger *slog.Logger, onSnapshot func(lockwatch.Snapshot)) (*lockwatch.Watcher, error) {
	w, err := lockwatch.New(lockwatch.Config{
		ConnConfig:   s.target.Source.ConnConfig,
		Locks:        s.target.Locks,
		PollInterval: s.pollInterval,
		PollTimeout:  s.pollTimeout,
		MaxDutyCycle: opts.maxDutyCycle,
		OnSnapshot:   onSnapshot,
		Logger:       logger.With(slog.String("target", s.target.Name)),
	})
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", s.target.Name, err)
	}
	return w, nil
}
