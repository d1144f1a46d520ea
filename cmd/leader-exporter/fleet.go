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

	"github.com/plexsphere/leader-exporter/api"
	"github.com/plexsphere/leader-exporter/cmd/leader-exporter/config"
	"github.com/plexsphere/leader-exporter/collector"
	"github.com/plexsphere/leader-exporter/history"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// fleet runs the watchers of all targets. A reload keeps those whose target is as it was, with all that they know.
type fleet struct {
	opts     options
	logger   *slog.Logger
	recorder *history.Recorder
	events   *api.Events

	present    atomic.Pointer[[]api.Target]        // by name
	gatherer   atomic.Pointer[prometheus.Registry] // of the present targets
	reloaded   prometheus.Gauge
	reloadedAt prometheus.Gauge
	generation atomic.Uint64 // counts the changes of what a scrape tells

	mu      sync.Mutex // guards the fields below; held through a reload
	members map[string]*member
	closed  bool
}

// member is a watcher that runs.
type member struct {
	spec    spec
	watcher *lockwatch.Watcher
	target  api.Target
	stop    context.CancelFunc
	ended   chan struct{}
}

// spec is everything that a watcher depends on: where it is the same, the watcher goes on.
type spec struct {
	target                    config.Target
	pollInterval, pollTimeout time.Duration
}

// newFleet returns a fleet that has not loaded its targets yet.
func newFleet(opts options, logger *slog.Logger, recorder *history.Recorder) *fleet {
	return &fleet{
		opts: opts, logger: logger, recorder: recorder, events: api.NewEvents(logger), members: make(map[string]*member),
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
		f.generation.Add(1)
		return err
	}
	before := f.members
	// What a watcher saw last is noted when it has ended: only then its successor can be told where to go on.
	for name, m := range before {
		if next[name] != m {
			m.stop()
		}
	}
	for name, m := range before {
		if next[name] != m {
			<-m.ended
		}
	}
	for name, m := range next {
		if before[name] != m {
			f.prepareWatcher(m)
		}
	}
	f.members = next
	f.reloaded.Set(1)
	f.reloadedAt.SetToCurrentTime()
	f.publish()
	// Only now the event of a removed target, since whoever reads it and asks, or whoever begins to read after it, is to find the target gone; and only
	// now events of new ones, since a reader that begins after them takes the present state from the targets.
	for name := range before {
		if next[name] == nil {
			f.recorder.Forget(name)
			f.events.Remove(name)
		}
	}
	for name, m := range next {
		if before[name] != m {
			f.logger.InfoContext(ctx, "watching", slog.String("target", name), slog.Int("locks", len(m.spec.target.Locks)))
			m.run()
		}
	}
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
		if _, err := s.watcher(f.opts, f.logger, nil, nil); err != nil {
			return nil, err
		}
		next[name] = &member{spec: s, ended: make(chan struct{})}
	}
	return next, nil
}

// prepareWatcher makes a watcher that goes on with the terms which the history has of the target. The one that it replaces has ended and tells
// of no further term.
func (f *fleet) prepareWatcher(m *member) {
	name := m.spec.target.Name
	m.target = m.spec.apiTarget()
	var err error
	m.watcher, err = m.spec.watcher(f.opts, f.logger, f.recorder.OpenTerms(name), func(s lockwatch.Snapshot) {
		f.generation.Add(1)
		f.recorder.Note(name, s)
		f.events.Note(m.target, s)
	})
	if err != nil {
		panic(err) // prepare has made one of the same spec
	}
	m.target.Source = m.watcher
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
	present := []api.Target{}
	for _, name := range slices.Sorted(maps.Keys(f.members)) {
		m := f.members[name]
		targets = append(targets, collector.Target{Name: name, Labels: m.spec.target.Labels, Source: m.watcher})
		present = append(present, m.target)
	}
	f.present.Store(&present)
	registry := prometheus.NewRegistry()
	registry.MustRegister(f.reloaded, f.reloadedAt, collector.New(targets))
	f.gatherer.Store(registry)
	f.generation.Add(1)
}

// Gather implements prometheus.Gatherer over the present targets, once some were loaded.
func (f *fleet) Gather() ([]*dto.MetricFamily, error) { return f.gatherer.Load().Gather() }

// targets returns the present ones, once some were loaded.
func (f *fleet) targets() []api.Target { return *f.present.Load() }

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

// apiTarget is the target as the API shows it, without a source.
func (s spec) apiTarget() api.Target {
	return api.Target{Name: s.target.Name, Labels: s.target.Labels, Locks: s.target.Locks}
}

// watcher makes the watcher of a target, which goes on with the terms in resume. onSnapshot may be nil.
func (s spec) watcher(opts options, logger *slog.Logger, resume []lockwatch.Term, onSnapshot func(lockwatch.Snapshot)) (*lockwatch.Watcher, error) {
	w, err := lockwatch.New(lockwatch.Config{
		ConnConfig:   s.target.Source.ConnConfig,
		Locks:        s.target.Locks,
		PollInterval: s.pollInterval,
		PollTimeout:  s.pollTimeout,
		MaxDutyCycle: opts.maxDutyCycle,
		Resume:       resume,
		OnSnapshot:   onSnapshot,
		Logger:       logger.With(slog.String("target", s.target.Name)),
	})
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", s.target.Name, err)
	}
	return w, nil
}
