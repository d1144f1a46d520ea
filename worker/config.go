package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The defaults of a Config. With them a worker that fails at every start is exhausted after some five minutes.
const (
	DefaultMinBackoff  = time.Second
	DefaultMaxBackoff  = time.Minute
	DefaultRestarts    = 10
	DefaultWindow      = 10 * time.Minute
	DefaultStopTimeout = 10 * time.Second
)

// Config says how a Supervisor treats workers that fail. It is copied by New.
type Config struct {
	// MinBackoff is the wait before the first restart within Window; it doubles with each further one, up to MaxBackoff. Zero
	// and negative mean DefaultMinBackoff.
	MinBackoff time.Duration

	// MaxBackoff bounds the wait before a restart. Zero and negative mean DefaultMaxBackoff, or MinBackoff if that is longer.
	MaxBackoff time.Duration

	// Restarts is the budget: how many restarts a worker gets within Window. One that fails once more is exhausted, and is
	// not started again. Zero means DefaultRestarts; a negative value means no restart at all.
	Restarts int

	// Window is the time that counts for Restarts, up to the present. Zero and negative mean DefaultWindow, or twice what the
	// backoffs of Restarts take if they would outlast it. A Window of the caller's that they would outlast is an error of New: a
	// worker that fails at every start could never be exhausted.
	Window time.Duration

	// StopTimeout is how long Run waits for its workers after its context has ended. Zero means DefaultStopTimeout; with a
	// negative value Run waits for as long as they take. What a worker holds that outlasts it stays held: pgxpool.Pool.Close,
	// for one, waits for its connection.
	StopTimeout time.Duration

	// OnExhausted, unless nil, is called once for each worker that has spent its budget, with the error of its last failure. The
	// worker stays exhausted: a step-down asked for here should outlast the process.
	// ctx is Run's. It may block, for example in Elector.StepDown: only the exhausted worker's own goroutine waits for it; calls
	// for two workers may overlap. A panic in it is logged and counted as the worker's own.
	OnExhausted func(ctx context.Context, worker string, err error)

	// Logger receives one line per failure, one more per panic, and one for a worker that is finished, exhausted, or does not
	// stop. Nil means slog.Default().
	Logger *slog.Logger

	// Registerer receives plexsphere_worker_up, plexsphere_worker_exhausted, plexsphere_worker_restarts_total and
	// plexsphere_worker_panics_total, each with the label worker and present with 0 from Add on. Nil registers none. Supervisors that share a Registerer share the
	// metrics; give their workers different names.
	Registerer prometheus.Registerer
}

// withDefaults returns c with its optional fields filled in.
func (c Config) withDefaults() Config {
	if c.MinBackoff <= 0 {
		c.MinBackoff = DefaultMinBackoff
	}
	if c.MaxBackoff <= 0 {
		c.MaxBackoff = max(DefaultMaxBackoff, c.MinBackoff)
	}
	if c.Restarts == 0 {
		c.Restarts = DefaultRestarts
	}
	c.Restarts = max(c.Restarts, 0)
	if c.Window <= 0 {
		c.Window = DefaultWindow
		if shortest := c.shortestExhaustion(); shortest >= c.Window {
			c.Window = 2 * shortest
		}
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = DefaultStopTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// validate checks the relations between the fields and returns all problems at once.
func (c Config) validate() error {
	var problems []error
	if c.MaxBackoff < c.MinBackoff {
		problems = append(problems, fmt.Errorf("Config.MaxBackoff %v is below MinBackoff %v", c.MaxBackoff, c.MinBackoff))
	}
	if shortest := c.shortestExhaustion(); shortest >= c.Window {
		problems = append(problems, fmt.Errorf(
			"Config.Restarts %d could never be spent: their backoff alone takes %v or more, and Window is %v", c.Restarts, shortest, c.Window))
	}
	return errors.Join(problems...)
}

// backoff is the wait before a restart, when there were that many within Window.
func (c Config) backoff(restarts int) time.Duration {
	wait := c.MinBackoff
	for range restarts {
		if wait > c.MaxBackoff/2 {
			return c.MaxBackoff
		}
		wait *= 2
	}
	return wait
}

// shortestExhaustion is how long the backoffs of a worker take that fails at every start, from its first restart to its last; at
// most a quarter of what a Duration holds, which no process outlives.
func (c Config) shortestExhaustion() time.Duration {
	const longest = math.MaxInt64 / 4
	var sum time.Duration
	for i := 1; i < c.Restarts && sum < longest; i++ {
		wait := c.backoff(i)
		if rest := time.Duration(c.Restarts - i); wait == c.MaxBackoff { // and so are all that follow
			if wait > (longest-sum)/rest {
				return longest
			}
			return sum + rest*wait
		}
		sum += wait
	}
	return min(sum, longest)
}
