package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// worker is one worker. Its goroutine in supervise owns restarts; the Supervisor's mu guards what follows.
type worker struct {
	name     string
	run      func(ctx context.Context) error
	restarts []time.Time // those within Window, oldest first

	alive     bool  // from the first start on, until nothing of it runs any more
	exhausted error // the last failure, once the budget is spent
}

// supervise calls the worker until ctx ends, it is finished, or its budget is spent.
func (s *Supervisor) supervise(ctx context.Context, w *worker) {
	s.set(func() { w.alive = true })
	defer s.set(func() { w.alive = false })
	for ctx.Err() == nil {
		err := s.attempt(ctx, w)
		switch {
		case ctx.Err() != nil:
			s.logEnd(ctx, w, err)
			return
		case err == nil:
			s.config.Logger.InfoContext(ctx, "background worker finished", slog.String("worker", w.name))
			return
		case !w.mayRestart(time.Now(), s.config):
			s.exhaust(ctx, w, err)
			return
		}
		wait := s.config.backoff(len(w.restarts))
		s.config.Logger.WarnContext(ctx, "background worker failed",
			slog.String("worker", w.name), slog.Any("error", err), slog.Duration("restart_in", wait))
		if !sleep(ctx, wait) {
			return
		}
		w.restarts = append(w.restarts, time.Now())
		s.metrics.restarts.WithLabelValues(w.name).Inc()
	}
}

// mayRestart reports whether there is budget left, and forgets the restarts that do not count any more.
func (w *worker) mayRestart(now time.Time, cfg Config) bool {
	for len(w.restarts) > 0 && now.Sub(w.restarts[0]) >= cfg.Window {
		w.restarts = w.restarts[1:]
	}
	return len(w.restarts) < cfg.Restarts
}

// attempt calls the worker once and returns its failure.
func (s *Supervisor) attempt(ctx context.Context, w *worker) error {
	up := s.metrics.up.WithLabelValues(w.name)
	up.Set(1)
	defer up.Set(0)
	return s.guard(ctx, w.name, func() error { return w.run(ctx) })
}

// guard calls fn and makes a failure of its panic, which it logs and counts.
func (s *Supervisor) guard(ctx context.Context, name string, fn func() error) error {
	panicked, err := call(fn)
	if panicked == nil {
		return err
	}
	s.metrics.panics.WithLabelValues(name).Inc()
	s.config.Logger.ErrorContext(ctx, "background worker panicked",
		slog.String("worker", name), slog.Any("panic", panicked.Value), slog.String("stack", string(panicked.Stack)))
	return panicked
}

// logEnd tells of a worker that the end of the context ended, if it did not end well.
func (s *Supervisor) logEnd(ctx context.Context, w *worker, err error) {
	if err != nil && !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)) {
		s.config.Logger.WarnContext(ctx, "background worker failed", slog.String("worker", w.name), slog.Any("error", err))
	}
}

// exhaust gives the worker up.
func (s *Supervisor) exhaust(ctx context.Context, w *worker, err error) {
	s.set(func() { w.exhausted = err })
	s.metrics.exhausted.WithLabelValues(w.name).Set(1)
	s.config.Logger.ErrorContext(ctx, "background worker exhausted its restart budget", slog.String("worker", w.name),
		slog.Any("error", err), slog.Int("restarts", s.config.Restarts), slog.Duration("window", s.config.Window))
	if s.config.OnExhausted != nil {
		_ = s.guard(ctx, w.name, func() error {
			s.config.OnExhausted(ctx, w.name, err)
			return nil
		})
	}
}

// set changes the state of a worker.
func (s *Supervisor) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// sleep waits, and reports whether ctx let it.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
