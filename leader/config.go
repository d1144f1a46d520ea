package leader

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// DefaultCheckInterval is the CheckInterval of a Config that sets none.
const DefaultCheckInterval = 5 * time.Second

// ErrNilPool is returned by New for a Config without a Pool.
var ErrNilPool = errors.New("leader: new elector: Config.Pool is nil")

// Config says how an Elector takes part in the election. It is copied by New.
type Config struct {
	// Pool supplies the connections on which the lock is tried. Required. Its connections must reach PostgreSQL 14 or
	// newer directly or through a pooler in session mode. Set connect_timeout in its connection string: an attempt to
	// connect that nobody waits for any more occupies a place in the pool until that timeout.
	Pool *pgxpool.Pool

	// CheckInterval is how often a standby tries the lock and the leader verifies it, and how long each of the two may
	// take before it counts as failed. Zero and negative mean DefaultCheckInterval. Four of them bound how long the
	// server keeps the lock of a leader that fell silent, between 1 ms and 2147483647 ms (the range of
	// idle_session_timeout).
	CheckInterval time.Duration

	// Logger receives one line per change of state and per failed check. Nil means slog.Default().
	Logger *slog.Logger

	// Registerer receives the gauge plexsphere_background_leader, present with 0 from New on. Nil registers none. Electors
	// that share a Registerer write to one series; give each its own when several run in one process.
	Registerer prometheus.Registerer
}

// withDefaults returns c with its optional fields filled in.
func (c Config) withDefaults() Config {
	if c.CheckInterval <= 0 {
		c.CheckInterval = DefaultCheckInterval
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// New returns an Elector that takes part once Run is called. It returns ErrNilPool without a Pool, and an error when the
// Registerer refuses the gauge or already holds something else under its name. It does not touch the database.
func New(cfg Config) (*Elector, error) {
	if cfg.Pool == nil {
		return nil, ErrNilPool
	}
	cfg = cfg.withDefaults()
	gauge, err := registerGauge(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("leader: new elector: %w", err)
	}
	return &Elector{
		pool:       cfg.Pool,
		interval:   cfg.CheckInterval,
		logger:     cfg.Logger,
		gauge:      gauge,
		statements: newStatements(orphanBoundMillis(cfg.CheckInterval)),
	}, nil
}

// orphanBoundMillis returns the idle_session_timeout of the lock session: four check intervals, in milliseconds, kept
// within what the setting takes (manual, "Client Connection Defaults": an integer, and 0 would switch it off).
func orphanBoundMillis(interval time.Duration) int64 {
	const intervals = 4
	if interval > math.MaxInt32*time.Millisecond/intervals {
		return math.MaxInt32
	}
	return max(1, (intervals * interval).Milliseconds())
}
