package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// WhileLeader runs a loop that paces itself, for as long as its replica leads. Make one with NewWhileLeader.
type WhileLeader struct {
	config  Config
	run     func(ctx context.Context) error
	metrics *metrics
	busy    atomic.Bool // Run is under way
}

// NewWhileLeader returns a WhileLeader that calls run in each term once its own Run is called. It returns an error for a Config
// without Name or Leader, for a nil run, and when the Registerer refuses a metric or already holds something else under its
// name.
func NewWhileLeader(cfg Config, run func(ctx context.Context) error) (*WhileLeader, error) {
	cfg = cfg.withDefaults()
	if cfg.Every <= 0 {
		cfg.Every = defaultAsk
	}
	if err := cfg.validate(run == nil); err != nil {
		return nil, fmt.Errorf("loop: new while-leader %q: %w", cfg.Name, err)
	}
	metrics, err := register(cfg.Registerer, cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("loop: new while-leader %q: %w", cfg.Name, err)
	}
	return &WhileLeader{config: cfg, run: run, metrics: metrics}, nil
}

// Run calls the function once in each term of this replica, with a context of the term, until ctx ends; it then returns nil. A
// function that returns nil earlier is done for its term. Its error, if it returns one during its term, ends Run, which returns
// it: run a WhileLeader under a worker.Supervisor, which calls Run again. So does an error after the end of ctx that does
// not wrap the term's own, or its cause. An error after the term was lost is no failure. A panic goes on to the caller. Run may be called again
// after it has returned or panicked; a call while another one runs returns an error.
func (w *WhileLeader) Run(ctx context.Context) error {
	if !w.busy.CompareAndSwap(false, true) {
		return fmt.Errorf("loop: run %q: it already runs", w.config.Name)
	}
	defer w.busy.Store(false)
	ticker := time.NewTicker(w.config.Every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		led, err := w.lead(ctx)
		if err != nil {
			return fmt.Errorf("loop: run %q: %w", w.config.Name, err)
		}
		if led {
			continue // the next term may have begun
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return nil
}

// lead runs the function to the end of the present term, if this replica leads. It returns the error of a function that failed
// before the term ended.
func (w *WhileLeader) lead(ctx context.Context) (led bool, err error) {
	term, cancel, leads := w.config.Leader.Term(ctx)
	defer cancel()
	if !leads {
		return false, nil
	}
	err = w.call(term)
	switch {
	case term.Err() == nil && err == nil:
		w.config.Logger.InfoContext(ctx, "background loop done for this term", slog.String("loop", w.config.Name))
	case err == nil:
	case term.Err() == nil, ctx.Err() != nil && !tellsOf(term, err):
		return true, err
	case ctx.Err() == nil:
		w.config.Logger.InfoContext(ctx, "background loop cut short by a demotion",
			slog.String("loop", w.config.Name), slog.Any("error", err))
	}
	<-term.Done()
	return true, nil
}

// tellsOf reports whether err wraps the error or the cause of a context that has ended.
func tellsOf(ctx context.Context, err error) bool {
	return errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))
}

func (w *WhileLeader) call(term context.Context) error {
	defer w.metrics.begin(w.config.Name)()
	return w.run(term)
}
