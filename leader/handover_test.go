package leader_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// handovers is how often each test hands over.
const handovers = 20

// relay is three replicas on a real server, one of which leads.
type relay struct {
	history  *leadertest.History
	replicas []*replica
}

func newRelay(t *testing.T, every time.Duration, configure ...func(*leader.Config)) *relay {
	t.Helper()
	db := pgtest.Database(t)
	c := &relay{history: &leadertest.History{}}
	for i := range 3 {
		registered := func(config *leader.Config) { config.Registerer = c.history.Registerer(fmt.Sprint(i)) }
		r := newReplica(t, db.Pool(t), every, append(configure, registered)...)
		c.replicas = append(c.replicas, r)
		if i == 0 {
			r.run(t)
			awaitLeader(t, r)
		}
	}
	return c
}

// join runs the replica, and returns once it was refused and, if it is to, listens.
func (c *relay) join(t *testing.T, r *replica, listens bool) {
	t.Helper()
	before := r.pool.Stat().AcquireCount()
	r.run(t)
	pgtest.Eventually(t, patience, "the replica is a standby that waits", func() (bool, string) {
		stat := r.pool.Stat()
		return stat.AcquireCount() > before && stat.AcquiredConns() == 0 && (stat.TotalConns() == 0) == listens,
			fmt.Sprintf("%d connections; log:\n%s", stat.TotalConns(), strings.Join(r.logs.With(""), "\n"))
	})
}

// hand has the leader release its lock, waits until another one leads, and returns after how long that was.
func (c *relay) hand(t *testing.T, release func(*replica)) time.Duration {
	t.Helper()
	from := leaders(c.replicas)[0]
	seen, begin := len(c.history.Events()), time.Now()
	release(from)
	var took time.Duration
	pgtest.Eventually(t, patience, "another replica leads", func() (bool, string) {
		for _, e := range c.history.Events()[seen:] {
			if e.Kind == leadertest.TermBegan {
				took = e.At.Sub(begin)
				return true, ""
			}
		}
		return false, fmt.Sprint(c.history.Events()[seen:])
	})
	if from.IsLeader() {
		t.Error("the replica that gave up leads again")
	}
	return took
}

// handOver hands over again and again, each time with two standbys, and returns the times in order.
func (c *relay) handOver(t *testing.T, listens bool, release func(*replica)) []time.Duration {
	t.Helper()
	for _, r := range c.replicas[1:] {
		c.join(t, r, listens)
	}
	var times []time.Duration
	for range handovers {
		from := leaders(c.replicas)[0]
		times = append(times, c.hand(t, release))
		from.stop() // also after a step-down, so that its next check is now and not an interval later
		<-from.returned
		c.join(t, from, listens)
	}
	slices.Sort(times)
	return times
}

func cleanStop(r *replica) { r.stop() }

// R10, R24: with WakeOnRelease a clean stop hands over in less than a hundredth of the interval.
func TestFaultHandoverWakesAStandbyOnACleanStop(t *testing.T) {
	const every = leader.DefaultCheckInterval
	requireAtOnce(t, "clean stop", every, newRelay(t, every, wakeOnRelease).handOver(t, true, cleanStop))
}

// R23, R24: with WakeOnRelease a step-down does too.
func TestFaultHandoverWakesAStandbyOnAStepDown(t *testing.T) {
	const every = leader.DefaultCheckInterval
	requireAtOnce(t, "step-down", every, newRelay(t, every, wakeOnRelease).handOver(t, true, func(r *replica) {
		if err := r.StepDown(t.Context(), 0); err != nil {
			t.Error(err)
		}
	}))
}

// requireAtOnce fails unless half of the times are below a hundredth of the interval, and none is above the interval.
func requireAtOnce(t *testing.T, name string, every time.Duration, times []time.Duration) {
	t.Helper()
	median, worst := times[len(times)/2], times[len(times)-1]
	fmt.Printf("handover: %s with WakeOnRelease: median %v, worst %v of %d\n", name, median, worst, len(times))
	if median >= every/100 || worst > every {
		t.Errorf("handovers took %v, want a median below %v", times, every/100)
	}
}

// R10: without WakeOnRelease a standby leads within one interval of a clean stop, which is when it checks next.
func TestFaultHandoverTakesAnIntervalWithoutWakeOnRelease(t *testing.T) {
	const every = 300 * time.Millisecond
	times := newRelay(t, every).handOver(t, false, cleanStop)
	median, worst := times[len(times)/2], times[len(times)-1]
	fmt.Printf("handover: clean stop without WakeOnRelease: median %.2f, worst %.2f intervals of %d\n",
		median.Seconds()/every.Seconds(), worst.Seconds()/every.Seconds(), len(times))
	if median > every || worst > every+slack {
		t.Errorf("handovers took %v, want at most %v", times, every)
	}
}
