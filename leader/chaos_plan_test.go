package leader_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// chaosReplicas is how many replicas a campaign has.
const chaosReplicas = 5

// blow is one fault of a campaign.
type blow struct {
	fault   leadertest.Fault
	replica int           // whom it hits, if it hits one
	lasts   time.Duration // until it is healed, for a fault with a duration
	variant int           // of a fault that can be done in more than one way
}

// world is an election that can be hit.
type world interface {
	// strike does it, records it in the history, and returns how to heal it; nil for what heals by itself. It reports false when
	// the fault cannot be done now.
	strike(b blow) (heal func(), done bool)
	// leader returns the number of the replica that holds the lock, or -1.
	leader() int
	// sleep passes time.
	sleep(d time.Duration)
}

// campaign strikes at random, for the given time. It hits a replica again only when it is healed, and heals all in the end.
type campaign struct {
	random   *rand.Rand
	interval time.Duration
	faults   []leadertest.Fault
	world    world
	grid     time.Duration // each strike and each healing comes a multiple of it after the one before

	healing []healing
	log     func(format string, args ...any)
}

// healing is a fault that lasts.
type healing struct {
	at   time.Time
	blow blow
	heal func()
}

// newCampaign derives everything from the seed, so that the same seed makes the same plan. What the moment decides, such as
// who leads, is not in it.
func newCampaign(seed uint64, interval time.Duration, w world, faults ...leadertest.Fault) *campaign {
	return &campaign{
		random:   rand.New(rand.NewPCG(seed, seed)), //nolint:gosec // it has to be replayable, not secret
		interval: interval,
		faults:   faults,
		world:    w,
		grid:     time.Millisecond,
		log:      func(string, ...any) {},
	}
}

func (c *campaign) run(ctx context.Context, length time.Duration) {
	for end := time.Now().Add(length); time.Now().Before(end) && ctx.Err() == nil; {
		c.passUntil(time.Now().Add(c.upTo(4)))
		b := blow{
			fault:   c.faults[c.random.IntN(len(c.faults))],
			replica: c.random.IntN(chaosReplicas),
			lasts:   c.upTo(7),
			variant: c.random.IntN(2),
		}
		if leader := c.world.leader(); c.random.IntN(2) == 0 && leader >= 0 {
			b.replica = leader // else four of five would be standbys
		}
		if c.isHit(b) {
			continue
		}
		heal, done := c.world.strike(b)
		if done {
			c.log("%s of %d for %v", b.fault, b.replica, b.lasts)
		}
		if heal != nil {
			c.healing = append(c.healing, healing{at: time.Now().Add(b.lasts), blow: b, heal: heal})
		}
	}
	c.passUntil(time.Now().Add(10 * c.interval))
}

// upTo is a time of at most so many intervals. Half of all are short, because much happens within the first two.
func (c *campaign) upTo(intervals float64) time.Duration {
	if c.random.IntN(2) == 0 {
		intervals /= 3
	}
	return time.Duration(c.random.Float64() * intervals * float64(c.interval)).Truncate(c.grid)
}

// isHit reports whether the fault would hit what is hit already. While the server is down everything is.
func (c *campaign) isHit(b blow) bool {
	return slices.ContainsFunc(c.healing, func(h healing) bool {
		if b.fault == leadertest.ServerRestart || h.blow.fault == leadertest.ServerRestart {
			return h.blow.fault == leadertest.ServerRestart
		}
		return h.blow.replica == b.replica
	})
}

// passUntil lets time pass and heals what is due.
func (c *campaign) passUntil(end time.Time) {
	for {
		next, at := -1, end
		for i, h := range c.healing {
			if h.at.Before(at) {
				next, at = i, h.at
			}
		}
		c.world.sleep(time.Until(at))
		if next < 0 {
			return
		}
		h := c.healing[next]
		c.healing = append(c.healing[:next], c.healing[next+1:]...)
		h.heal()
	}
}

// setting reads a number from the environment, as `make chaos SECONDS=600 SEED=7` sets it.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s: want a whole number", name, text)
	}
	return value
}

// seedOf returns the seed of this run, and prints how to run it again.
func seedOf(t *testing.T, command string) uint64 {
	t.Helper()
	seed := setting(t, "LEADER_CHAOS_SEED", uint64(time.Now().UnixNano()))
	fmt.Printf("chaos: seed %d; again with: %s SEED=%d\n", seed, command, seed)
	return seed
}
