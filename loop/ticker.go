package loop

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Ticker makes a pass on a fixed cadence while its replica leads. Make one with NewTicker.
type Ticker struct {
	config  Config
	pass    func(ctx context.Context) error
	metrics *metrics
	busy    atomic.Bool // Run or Boot is under way

	mu      sync.Mutex
	outcome error // what Ready reports; guarded by mu
}

// NewTicker returns a Ticker that makes the pass once Run is called. It returns an error for a Config without Name, Every or
// Leader, for a nil pass, and when the Registerer refuses a metric or already holds something else under its name.
func NewTicker(cfg Config, pass func(ctx context.Context) error) (*Ticker, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(pass == nil); err != nil {
		return nil, fmt.Errorf("loop: new ticker %q: %w", cfg.Name, err)
	}
	metrics, err := register(cfg.Registerer, cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("loop: new ticker %q: %w", cfg.Name, err)
	}
	metrics.addTicks(cfg.Name)
	return &Ticker{config: cfg, pass: pass, metrics: metrics}, nil
}

// Boot makes one pass whether or not the replica leads, for what fell due while the process was offline. Ready reports its
// outcome, which Boot returns too, until the first tick. Call it before Run, and before the replica reports ready.
func (t *Ticker) Boot(ctx context.Context) error {
	if !t.busy.CompareAndSwap(false, true) {
		return fmt.Errorf("loop: boot %q: a pass may be under way", t.config.Name)
	}
	defer t.busy.Store(false)
	_, err := t.call(ctx)
	t.report(err)
	return err
}

// Run ticks until ctx ends, the first time after Config.Every, and then returns nil; a pass that is under way gets an ended
// context, and Run waits for it. A pass that takes longer than Every delays the next tick, and those that it missed do not come. Run may be
// called again after it has returned; a call while another one runs returns an error.
func (t *Ticker) Run(ctx context.Context) error {
	if !t.busy.CompareAndSwap(false, true) {
		return fmt.Errorf("loop: run %q: a pass may be under way", t.config.Name)
	}
	defer t.busy.Store(false)
	ticker := time.NewTicker(t.config.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if ctx.Err() != nil {
			return nil
		}
		t.tick(ctx)
	}
}

// tick makes a pass if the replica leads, and enters how it went.
func (t *Ticker) tick(ctx context.Context) {
	var called, panicked bool
	var took time.Duration
	kept, err := t.config.Leader.Do(ctx, func(term context.Context) (err error) {
		called = true
		begun := time.Now()
		panicked, err = t.call(term)
		took = time.Since(begun)
		return err
	})
	if !called {
		t.report(nil) // a standby has no outcome of its own
		return
	}
	result := resultOf(kept, panicked, err, ctx.Err())
	t.metrics.tick(t.config.Name, result, took)
	switch {
	case result == resultLost, !kept:
		return
	case err != nil:
		t.config.Logger.WarnContext(ctx, "background loop tick failed", slog.String("loop", t.config.Name), slog.Any("error", err))
	}
	t.report(err)
}

// resultOf names how a pass went. kept says whether its term outlasted it, stopped how the loop's own context ended.
func resultOf(kept, panicked bool, err, stopped error) result {
	switch {
	case panicked:
		return resultPanic
	case !kept, err != nil && stopped != nil:
		return resultLost
	case err != nil:
		return resultError
	default:
		return resultOK
	}
}

// call makes one pass.
func (t *Ticker) call(ctx context.Context) (panicked bool, err error) {
	defer t.metrics.begin(t.config.Name)()
	unwound, err := call(func() error { return t.pass(ctx) })
	if unwound == nil {
		return false, err
	}
	t.config.Logger.ErrorContext(ctx, "background loop tick panicked", slog.String("loop", t.config.Name),
		slog.Any("panic", unwound.value), slog.String("stack", string(unwound.stack)))
	return true, fmt.Errorf("plexsphere: background loop %q: tick panicked: %v", t.config.Name, unwound.value)
}

// report makes err what Ready returns.
func (t *Ticker) report(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcome = err
}

// Ready is the loop's probe. It returns the error of the last pass, until a later pass succeeds or a tick finds that this
// replica does not lead; nil on a replica that has made none. A pass that its term's end cut short does not count. Ready does not wait, so ctx is not
// used; it is there to fit other probes.
func (t *Ticker) Ready(context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.outcome
}
