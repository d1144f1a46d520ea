package leader

import (
	"fmt"
	"math"
	"time"
)

// staleIntervals is after how many CheckIntervals without a good check a term is over. The server frees the lock of a
// silent session after four (see orphanBoundMillis); a healthy term renews within two.
const staleIntervals = 3

// leading returns the current term unless it is stale. A stale one it ends, for good.
func (e *Elector) leading() *term {
	t := e.current.Load()
	if t == nil || !e.isStale(*t.checked.Load()) {
		return t
	}
	e.expire(t)
	return nil
}

// expire ends t if it is still open and stale. It runs in the term's own timer too, since Run may be stuck: in a process
// that was paused, or in a Logger that blocks.
func (e *Elector) expire(t *term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current.Load() == t && e.isStale(*t.checked.Load()) {
		e.endTermLocked()
	}
}

// renew records a good check of the term, by the moment at which it was sent.
func (e *Elector) renew(t *term, sent time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current.Load() == t {
		t.checked.Store(&sent)
		t.watchdog.Reset(e.untilStale(sent))
	}
}

// isStale reports whether a check that was sent then proves nothing any more.
func (e *Elector) isStale(sent time.Time) bool { return elapsed(sent, time.Now()) >= e.staleAfter() }

// untilStale returns how long a check that was sent then is still good for.
func (e *Elector) untilStale(sent time.Time) time.Duration {
	return e.staleAfter() - elapsed(sent, time.Now())
}

// staleAfter is how old the last good check may become.
func (e *Elector) staleAfter() time.Duration {
	if e.interval > math.MaxInt64/staleIntervals {
		return math.MaxInt64
	}
	return staleIntervals * e.interval
}

func (e *Elector) errStale() error {
	return fmt.Errorf("no good check within %d check intervals (%v): was this process paused?", staleIntervals, e.staleAfter())
}

// elapsed is the time from since to now, by the clock that says more: the monotonic one stands still while the machine is
// suspended, and the wall clock may be set back.
func elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}
