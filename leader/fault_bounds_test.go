package leader_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// row is one line of the table of bounds in docs/leader.md.
type row struct {
	name    string
	fault   leadertest.Fault
	variant int
	lasts   time.Duration
	wakes   bool // with WakeOnRelease the next leader follows at once
}

// R8, R9, R10, R20, R21, R23, R24, L1, L11, L41: each row of the table of bounds, on processes and a real server, struck at several
// moments of an interval. What it prints is what docs/leader.md shows.
func TestFaultBounds(t *testing.T) {
	for _, r := range []row{
		{name: "clean stop", fault: leadertest.CleanStop, lasts: measured},
		{name: "clean stop, `WakeOnRelease`", fault: leadertest.CleanStop, lasts: measured, wakes: true},
		{name: "step-down", fault: leadertest.StepDown},
		{name: "step-down, `WakeOnRelease`", fault: leadertest.StepDown, wakes: true},
		{name: "process killed", fault: leadertest.Kill, lasts: measured},
		{name: "partition", fault: leadertest.Partition, variant: 1, lasts: 6 * measured},
		{name: "power loss", fault: leadertest.Partition, variant: 0, lasts: 6 * measured},
		{name: "backend terminated", fault: leadertest.Terminated},
		{name: "server restart, fast", fault: leadertest.ServerRestart, variant: 1, lasts: measured},
		{name: "server restart, immediate", fault: leadertest.ServerRestart, variant: 0, lasts: measured},
		{name: "backend ended, client cut off", fault: leadertest.Isolated, lasts: 3 * measured},
		{name: "process paused for 6 intervals", fault: leadertest.Pause, lasts: 6 * measured},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.hold(t)
		})
	}
}

// hold strikes at three moments and compares the worst with the bounds. The history says the rest: that no unit of work began
// where it must not, that nothing was counted twice or lost, that fences rise.
func (r row) hold(t *testing.T) {
	t.Helper()
	s := newReality(t)
	s.startMeasured(3, func(int) bool { return r.wakes })
	const strikes = 3
	var next time.Duration
	for i := range strikes {
		s.awaitTerm(time.Time{})
		s.sleep(2*measured + measured*time.Duration(i)/strikes)
		next = max(next, r.strike(s))
	}
	report := s.check()
	bounds, seen := r.fault.Bounds(), report.Faults[r.fault]
	nextBound := fmt.Sprint(bounds.NextLeader)
	if r.wakes {
		nextBound = "0.1" // 50 ms
	}
	fmt.Printf("bounds: | %s | %.2f of %d | %.2f of %d | %.2f of %s | %.2f of %d |\n", r.name,
		inIntervals(seen.Demotion), bounds.Demote, inIntervals(seen.LockFree), bounds.LockFree,
		inIntervals(next), nextBound, inIntervals(seen.Overlap), bounds.Overlap)
	if seen.Count != strikes {
		t.Errorf("%d faults in the history, want %d", seen.Count, strikes)
	}
	if allowed := time.Duration(bounds.NextLeader)*measured + report.Slack; next > allowed {
		t.Errorf("the next leader came after %v, want at most %v", next, allowed)
	}
}

// strike hits the leader once and heals it again. It returns how long the next leader took; for a server that was stopped,
// from its return.
func (r row) strike(s *reality) (next time.Duration) {
	b := blow{fault: r.fault, replica: s.leader(), variant: r.variant}
	if b.replica < 0 {
		s.t.Fatal("nobody holds the lock")
	}
	struck := time.Now()
	heal, done := s.strike(b)
	if !done {
		s.t.Fatal("nobody to strike")
	}
	if r.fault == leadertest.ServerRestart {
		s.sleep(r.lasts)
		heal()
		up := time.Now()
		return max(0, s.awaitTerm(struck).Sub(up)) // a replica may be faster than the look whether the server is up
	}
	next = s.awaitTerm(struck).Sub(struck)
	if heal != nil {
		s.sleep(time.Until(struck.Add(r.lasts)))
		heal()
	}
	return next
}

// awaitTerm waits for the first term that began at that moment or later and for the lock to be seen, and returns the begin.
func (s *reality) awaitTerm(from time.Time) time.Time {
	s.t.Helper()
	var began time.Time
	pgtest.Eventually(s.t, patience, "a term begins", func() (bool, string) {
		for _, e := range s.history.Events() {
			if e.Kind == leadertest.TermBegan && !e.At.Before(from) {
				began = e.At
				return s.leader() >= 0, "the lock is not seen"
			}
		}
		return false, "no term"
	})
	return began
}

// inIntervals returns the duration in CheckIntervals.
func inIntervals(d time.Duration) float64 { return float64(d) / float64(measured) }
