package leader

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/plexsphere/leader-exporter/lockkey"
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

	// Key names the lock. The zero Key means lockkey.BackgroundLeader(). Electors with different keys elect independently of
	// each other. Give those that share a process a Registerer each.
	Key lockkey.Key

	// WakeOnRelease makes a standby listen on a connection of its own, so that it learns of a lock that is given back within
	// milliseconds; off, it learns at its next check. The leader notifies as it unlocks, after a clean stop and a step-down, so
	// set it on all replicas or none. It costs a standby one connection that it takes out of Pool for good.
	WakeOnRelease bool

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
	if c.Key.IsZero() {
		c.Key = lockkey.BackgroundLeader()
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
		key:        cfg.Key,
		wakes:      cfg.WakeOnRelease,
		statements: newStatements(cfg.Key, cfg.CheckInterval, cfg.WakeOnRelease),
	}, nil
}
