package lockwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/lockkey"
)

// The defaults of a Config.
const (
	DefaultPollInterval = time.Second
	DefaultPollTimeout  = 5 * time.Second
	DefaultMaxDutyCycle = 0.02
)

// AllDatabases among the Databases of a Lock stands for every database of the server that takes connections and is no template. One in which the
// lock was followed once stays among them as long as it exists.
const AllDatabases = "*"

// Lock is an advisory lock under the name by which it is reported.
type Lock struct {
	Name string
	Key  lockkey.Key
	// Databases are those in which it is watched, or AllDatabases. Empty means the one that ConnConfig names.
	Databases []string
	// ExpectedApplicationNames are patterns, as of path.Match, for the application_name of a holder. Without any, none is foreign.
	ExpectedApplicationNames []string
}

// Config says what a Watcher watches. It is copied by New.
type Config struct {
	// ConnConfig returns how to connect. It is called before each attempt, so that a changed secret takes effect at the
	// next one. Its error must hold no secret: it is logged. Required.
	ConnConfig func() (*pgx.ConnConfig, error)
	// Locks are what to watch, all by one statement. At least one, each with a Name of its own and a Key.
	Locks []Lock
	// PollInterval is the least time between the starts of two polls. Zero and negative mean DefaultPollInterval.
	PollInterval time.Duration
	// PollTimeout bounds one poll, a connect included, here and on the server. Zero and negative mean DefaultPollTimeout.
	PollTimeout time.Duration
	// MaxDutyCycle bounds the share of time that the server spends in the statement: reading pg_locks takes every lock of
	// its partitions, and other sessions' lock calls wait meanwhile. Where a poll takes longer than that share of
	// PollInterval, polls come less often. Zero and negative mean DefaultMaxDutyCycle; at most 1.
	MaxDutyCycle float64
	// Resume are terms that went on when an earlier Watcher of these Locks saw them last, from wherever the caller keeps them. At the first
	// answer that tells of its lock a term goes on with its TermStart where its backend still holds the lock: the same pid, by the same
	// start of the backend where both are known, under the same start of the server. Else it has ended. Of one under another Key or on
	// another cluster no answer tells, and it does neither.
	Resume []Term
	// OnSnapshot, unless nil, is called with each new Snapshot, in its order, by whoever polls, which waits for it.
	OnSnapshot func(Snapshot)
	// Logger receives one line when the target goes down or comes up, and when polls come less often. Nil means slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.PollInterval <= 0 {
		c.PollInterval = DefaultPollInterval
	}
	if c.PollTimeout <= 0 {
		c.PollTimeout = DefaultPollTimeout
	}
	if c.MaxDutyCycle <= 0 {
		c.MaxDutyCycle = DefaultMaxDutyCycle
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// validate names every field that is missing or out of bounds.
func (c Config) validate() error {
	var problems []error
	if c.ConnConfig == nil {
		problems = append(problems, errors.New("Config.ConnConfig is nil"))
	}
	if len(c.Locks) == 0 {
		problems = append(problems, errors.New("Config.Locks is empty"))
	}
	if c.MaxDutyCycle > 1 {
		problems = append(problems, fmt.Errorf("Config.MaxDutyCycle is %v, want at most 1", c.MaxDutyCycle))
	}
	names := make(map[string]bool)
	for i, lock := range c.Locks {
		if lock.Key.IsZero() {
			problems = append(problems, fmt.Errorf("Config.Locks[%d].Key is the zero key", i))
		}
		if names[lock.Name] {
			problems = append(problems, fmt.Errorf("Config.Locks[%d].Name %q is taken", i, lock.Name))
		}
		names[lock.Name] = true
		for _, pattern := range lock.ExpectedApplicationNames {
			if _, err := path.Match(pattern, ""); err != nil {
				problems = append(problems, fmt.Errorf("Config.Locks[%d].ExpectedApplicationNames: %q: %w", i, pattern, err))
			}
		}
	}
	return errors.Join(problems...)
}

// Watcher watches locks on one target. Make it with New.
type Watcher struct {
	cfg      Config
	snapshot atomic.Pointer[Snapshot]

	// Owned by whoever polls: Run, or the caller of Poll.
	conn   *pgx.Conn
	server Server // that conn is to
	books  books
	pace   pace
	diary  diary
}

// New returns a Watcher that has not polled yet. It fails when a required field is missing or one is out of its bounds.
func New(cfg Config) (*Watcher, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("lockwatch: new watcher: %w", err)
	}
	w := &Watcher{cfg: cfg, books: newBooks(cfg), pace: pace{cfg: cfg}, diary: diary{logger: cfg.Logger}}
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

// Run polls at once and then every PollInterval, or less often to keep to MaxDutyCycle, until ctx ends. It then closes the
// connection and returns nil; no fault of the target makes it return earlier. One Run at a time, and no Poll beside it.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.disconnect()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for due := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		_ = w.poll(ctx) // logged, counted, and in the snapshot
		due = due.Add(w.pace.interval())
		if now := time.Now(); due.Before(now) {
			due = now
		}
		timer.Reset(time.Until(due))
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
	known := err == nil && !got.inRecovery
	next.Changes = w.books.enter(got, known, next.At, next.Interval)
	if known {
		err = w.books.missing()
	}
	next.Up, next.Err = err == nil, err
	next.Took = next.At.Sub(begin)
	next.PollDuration = next.PollDuration.with(next.Took)
	if err != nil {
		next.Failures = maps.Clone(next.Failures)
		next.Failures[reasonOf(err)]++
	} else {
		next.LastSuccess, next.ServerTime = next.At, got.serverNow
		next.InRecovery, next.ServerLocks = got.inRecovery, got.locks
	}
	w.pace.note(next.Took, got.spent, &w.diary)
	next.Interval = w.pace.interval()
	next.Locks = w.books.states()
	w.snapshot.Store(&next)
	if w.cfg.OnSnapshot != nil {
		w.cfg.OnSnapshot(next)
	}
	w.diary.note(next, err, w.books.absent())
	return err
}
