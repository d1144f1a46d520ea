package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Supervisor runs workers. Make one with New.
type Supervisor struct {
	config  Config
	metrics *metrics

	mu      sync.Mutex // guards the fields below, and the state of each worker
	workers []*worker  // in the order of Add
	begun   bool
}

// New returns a Supervisor without workers. It returns an error when the fields of the Config contradict each other, and when
// the Registerer refuses a metric or already holds something else under its name.
func New(cfg Config) (*Supervisor, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("worker: new supervisor: %w", err)
	}
	metrics, err := register(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("worker: new supervisor: %w", err)
	}
	return &Supervisor{config: cfg, metrics: metrics}, nil
}

// Add registers a worker. run has to go on until its context ends; a nil that it returns earlier says that its work is done
// for good. An error, a panic or a runtime.Goexit is a failure, after which run is called again. Add returns an error for a name
// that is empty, taken or not UTF-8, for a nil run, and once Run has begun.
func (s *Supervisor) Add(name string, run func(ctx context.Context) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refusalLocked(name, run == nil); err != nil {
		return fmt.Errorf("worker: add %q: %w", name, err)
	}
	s.metrics.add(name)
	s.workers = append(s.workers, &worker{name: name, run: run})
	return nil
}

func (s *Supervisor) refusalLocked(name string, isNil bool) error {
	switch {
	case s.begun:
		return errors.New("the supervisor has begun to run")
	case name == "" || !utf8.ValidString(name):
		return errors.New("a name is text in UTF-8, and not empty")
	case isNil:
		return errors.New("its function is nil")
	}
	for _, w := range s.workers {
		if w.name == name {
			return errors.New("the name is taken")
		}
	}
	return nil
}

// Run starts all workers and keeps them running until ctx ends. It then waits for them and returns nil, or
// after Config.StopTimeout an error that names those that still run. It goes on when every worker is finished or exhausted. A
// Supervisor runs once: a second call returns an error.
func (s *Supervisor) Run(ctx context.Context) error {
	workers, ok := s.begin()
	if !ok {
		return errors.New("worker: run: a supervisor runs once")
	}
	var running sync.WaitGroup
	for _, w := range workers {
		running.Go(func() { s.supervise(ctx, w) })
	}
	<-ctx.Done()
	ended := make(chan struct{})
	go func() { // outlives Run only together with a worker that does
		running.Wait()
		close(ended)
	}()
	return s.awaitEnd(ctx, ended)
}

// begin closes the list of workers.
func (s *Supervisor) begin() (workers []*worker, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		return nil, false
	}
	s.begun = true
	return s.workers, true
}

// awaitEnd waits until all workers have ended, and no longer than StopTimeout.
func (s *Supervisor) awaitEnd(ctx context.Context, ended <-chan struct{}) error {
	var late <-chan time.Time
	if s.config.StopTimeout > 0 {
		timer := time.NewTimer(s.config.StopTimeout)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-ended:
		return nil
	case <-late:
	}
	stuck := s.namesOf(func(w *worker) bool { return w.alive })
	if len(stuck) == 0 {
		return nil // the last one ended in the same moment
	}
	s.config.Logger.WarnContext(ctx, "background workers ignore the end of their context", slog.Any("workers", stuck))
	return fmt.Errorf("worker: run: still running %v after the end of the context: %s", s.config.StopTimeout, strings.Join(stuck, ", "))
}

func (s *Supervisor) namesOf(chosen func(*worker) bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, w := range s.workers {
		if chosen(w) {
			names = append(names, w.name)
		}
	}
	return names
}

// Ready is the probe of the name "workers": it returns nil, or an error that names every exhausted worker with its last
// failure. An exhausted worker stays so. Ready does not wait, so ctx is not used; it is there to fit other probes.
func (s *Supervisor) Ready(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var exhausted []error
	for _, w := range s.workers {
		if w.exhausted != nil {
			exhausted = append(exhausted, fmt.Errorf("worker %q has exhausted its budget of %d restarts within %v: %w",
				w.name, s.config.Restarts, s.config.Window, w.exhausted))
		}
	}
	return errors.Join(exhausted...)
}
