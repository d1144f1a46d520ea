package lockwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/lockkey"
)

// The defaults of a Config.
const (
	DefaultPollInterval = time.Second
	DefaultPollTimeout  = 5 * time.Second
)

// Lock is an advisory lock under the name by which it is reported.
type Lock struct {
	Name string
	Key  lockkey.Key
}

// Config says what a Watcher watches. It is copied by New.
type Config struct {
	// ConnConfig returns how to connect. It is called before each attempt, so that a changed secret takes effect at the
	// next one. Its error must hold no secret: it is logged. Required.
	ConnConfig func() (*pgx.ConnConfig, error)
	// Lock is the lock to watch, in the database that ConnConfig names. Required.
	Lock Lock
	// PollInterval is the time between the starts of two polls. Zero and negative mean DefaultPollInterval.
	PollInterval time.Duration
	// PollTimeout bounds one poll, a connect included, here and on the server. Zero and negative mean DefaultPollTimeout.
	PollTimeout time.Duration
	// Logger receives one line when the target goes down or comes up. Nil means slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.PollInterval <= 0 {
		c.PollInterval = DefaultPollInterval
	}
	if c.PollTimeout <= 0 {
		c.PollTimeout = DefaultPollTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Watcher watches one lock on one target. Make it with New.
type Watcher struct {
	cfg      Config
	snapshot atomic.Pointer[Snapshot]

	// Owned by whoever polls: Run, or the caller of Poll.
	conn      *pgx.Conn
	terms     *terms // nil before the first answer
	lastError string // what was logged last, empty while up
	everUp    bool
	warned    bool // about a holder that the role cannot see
}

// New returns a Watcher that has not polled yet. It fails when a required field is missing.
func New(cfg Config) (*Watcher, error) {
	var problems []error
	if cfg.ConnConfig == nil {
		problems = append(problems, errors.New("lockwatch: new watcher: Config.ConnConfig is nil"))
	}
	if cfg.Lock.Key.IsZero() {
		problems = append(problems, errors.New("lockwatch: new watcher: Config.Lock.Key is the zero key"))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	w := &Watcher{cfg: cfg.withDefaults()}
	failures := make(map[Reason]uint64)
	for _, reason := range Reasons() {
		failures[reason] = 0
	}
	w.snapshot.Store(&Snapshot{
		Interval:     w.cfg.PollInterval,
		Failures:     failures,
		PollDuration: newHistogram(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
	})
	return w, nil
}

// Snapshot returns what the last poll found. Safe from any goroutine; it never waits.
func (w *Watcher) Snapshot() Snapshot { return *w.snapshot.Load() }

// Run polls at once and then every PollInterval until ctx ends. It then closes the connection and returns nil; no fault of
// the target makes it return earlier. One Run at a time, and no Poll beside it.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.disconnect()
	ticker := time.NewTicker(w.cfg.PollInterval)
	defer ticker.Stop()
	for {
		_ = w.poll(ctx) // logged, counted, and in the snapshot
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Poll polls once, closes the connection, and returns what the poll found, or why it found nothing. Not beside Run.
func (w *Watcher) Poll(ctx context.Context) (Snapshot, error) {
	defer w.disconnect()
	err := w.poll(ctx)
	if err != nil {
		err = fmt.Errorf("lockwatch: poll: %w", err)
	}
	return w.Snapshot(), err
}

// poll asks once and publishes what is known then.
func (w *Watcher) poll(ctx context.Context) error {
	begin := time.Now()
	got, err := w.ask(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx) // the end of the watch is no fault of the target
	}
	next := w.Snapshot()
	next.At = time.Now()
	next.Up = err == nil
	next.Took = next.At.Sub(begin)
	next.PollDuration = next.PollDuration.with(next.Took)
	if err != nil {
		next.Failures = maps.Clone(next.Failures)
		next.Failures[reasonOf(err)]++
	} else {
		next.LastSuccess = next.At
		next.InRecovery, next.ServerLocks = got.inRecovery, got.locks
	}
	w.book(got, err == nil && !got.inRecovery, next.At)
	next.Locks = nil
	if w.terms != nil {
		next.Locks = []LockState{w.terms.state}
	}
	w.snapshot.Store(&next)
	w.logChange(ctx, err)
	return err
}

// book enters the poll into the books, which are those of one database: a changed secret may name another. A hot standby's
// locks are its own, so it tells nothing. Nor is anything known of a time in which this process itself stood still.
func (w *Watcher) book(got answer, known bool, at time.Time) {
	if known && (w.terms == nil || w.terms.state.Datname != got.datname) {
		w.terms = newTerms(got.datname, w.cfg.Lock.Name)
	}
	if known && w.terms.asked && at.Sub(w.terms.previous.at) > staleAfter*w.cfg.PollInterval+w.cfg.PollTimeout {
		w.terms.unanswered()
	}
	switch {
	case known:
		got.at = at
		w.terms.observe(got.observation)
	case w.terms != nil:
		w.terms.unanswered()
	}
}

// logChange logs when the target goes down, comes up, or is down for another reason than before.
func (w *Watcher) logChange(ctx context.Context, err error) {
	if err != nil {
		if reason := string(reasonOf(err)); reason != w.lastError {
			w.lastError = reason
			w.cfg.Logger.WarnContext(ctx, "target down", slog.String("reason", reason), slog.Any("error", err))
		}
		return
	}
	if w.lastError != "" || !w.everUp {
		w.cfg.Logger.InfoContext(ctx, "target up")
	}
	w.lastError, w.everUp = "", true
	if w.warned || w.terms == nil || w.terms.state.Holder == nil || w.terms.state.Holder.Visible {
		return
	}
	w.warned = true
	w.cfg.Logger.WarnContext(ctx, "the role cannot see the holder's details: grant it pg_read_all_stats (or pg_monitor)")
}
