package leader

import (
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
)

// at returns the present moment less the two ages: what a clock reading made earlier looks like when the wall clock and the
// monotonic one have since gone on by different times, because the machine was suspended or the clock was set.
func at(tb testing.TB, wall, monotonic time.Duration) time.Time {
	tb.Helper()
	moment := time.Now().Add(-wall)
	// time.Time keeps the monotonic reading, in nanoseconds, in its second word; there is no other way to set it.
	reading := (*int64)(unsafe.Add(unsafe.Pointer(&moment), unsafe.Sizeof(uint64(0))))
	*reading += int64(wall - monotonic)
	return moment
}

// R21: the age of the last good check is taken by the clock that says more.
func TestStalenessGoesByTheClockThatSaysMore(t *testing.T) {
	const interval = time.Minute
	for name, test := range map[string]struct {
		wall, monotonic time.Duration
		stale           bool
	}{
		"both say a moment":                  {time.Second, time.Second, false},
		"both say two intervals":             {2 * interval, 2 * interval, false},
		"both say three intervals":           {3 * interval, 3 * interval, true},
		"suspended: only the wall clock ran": {time.Hour, time.Second, true},
		"wall clock set back by an hour":     {3*interval - time.Hour, 3 * interval, true},
		"wall clock behind, all is well":     {-time.Hour, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Elector{interval: interval, gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "g"})}
			if !e.startTerm(t.Context(), 1, time.Now()) {
				t.Fatal("no term")
			}
			defer e.endTerm()
			sent := at(t, test.wall, test.monotonic)
			e.current.Load().checked.Store(&sent)
			if got := e.IsLeader(); got == test.stale {
				t.Errorf("IsLeader = %v with a check %v ago by the wall clock and %v by the monotonic one", got, test.wall, test.monotonic)
			}
			if _, leads := e.Fence(); leads == test.stale {
				t.Errorf("Fence says %v", leads)
			}
			if got := e.startTerm(t.Context(), 2, sent); got == test.stale {
				t.Errorf("startTerm on a grant of that age = %v", got)
			}
		})
	}
}

// R21: three of the longest interval are not a negative time.
func TestStalenessOfAnEndlessIntervalIsFarAway(t *testing.T) {
	e := &Elector{interval: 1<<63 - 1}
	if got := e.staleAfter(); got < e.interval {
		t.Errorf("stale after %v", got)
	}
}

// R21: Fence finds out by itself that a term is stale, and ends it, when nobody else has looked.
func TestFenceEndsAStaleTerm(t *testing.T) {
	e := &Elector{interval: time.Hour, gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "g"})}
	e.startTerm(t.Context(), 1, time.Now())
	sent := time.Now().Add(-3 * e.interval)
	e.current.Load().checked.Store(&sent)
	if fence, leads := e.Fence(); leads || fence != 0 {
		t.Errorf("Fence = %d, %v with the last good check three intervals ago, want 0, false", fence, leads)
	}
	if e.current.Load() != nil {
		t.Error("the term is still open")
	}
}

// R21: the end of a stale term comes too late when a good check has renewed the term, or when it is over and another one has begun.
func TestLateExpiryEndsNoFreshTerm(t *testing.T) {
	e := &Elector{interval: time.Hour, gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "g"})}
	defer e.endTerm()
	old := time.Now().Add(-3 * e.interval)
	e.startTerm(t.Context(), 1, time.Now())
	first := e.current.Load()
	first.checked.Store(&old)
	e.renew(first, time.Now())
	e.expire(first)
	if !e.IsLeader() {
		t.Error("a renewed term was ended")
	}
	first.checked.Store(&old)
	e.expire(first)
	if e.current.Load() != nil {
		t.Error("a stale term goes on")
	}
	e.startTerm(t.Context(), 2, time.Now())
	e.expire(first)
	if fence, leads := e.Fence(); !leads || fence != 2 {
		t.Errorf("Fence = %d, %v after the late expiry of the first term, want the second", fence, leads)
	}
}
