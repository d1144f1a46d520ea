package lockwatch

import "time"

// observation is what one answered poll saw of a lock.
type observation struct {
	at        time.Time // this machine's clock, monotonic
	serverNow time.Time
	holders   int
	waiters   int
	holder    *Holder // without TermStart
}

// terms keeps the books of one lock over the polls.
type terms struct {
	state LockState

	asked    bool        // the previous poll was answered
	previous observation // valid while asked
	current  *Holder     // the term that was last seen to go on; survives unanswered polls
	ended    time.Time   // when the last term was seen to have ended; zero when unknown
}

func newTerms(datname, lock string) *terms {
	return &terms{state: LockState{
		Datname:  datname,
		Lock:     lock,
		Handover: newHistogram(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 20, 30, 60, 120, 300),
	}}
}

// unanswered notes that the server could not be asked: what happens until the next answer is not known.
func (t *terms) unanswered() {
	t.asked = false
	t.ended = time.Time{}
	t.state.Known, t.state.Holders, t.state.Waiters, t.state.Holder = false, 0, 0, nil
}

// observe notes an answer.
func (t *terms) observe(o observation) {
	if t.asked {
		t.addTime(o.at.Sub(t.previous.at))
	}
	t.follow(&o)
	t.state.Known, t.state.Holders, t.state.Waiters, t.state.Holder = true, o.holders, o.waiters, o.holder
	t.asked, t.previous = true, o
}

// addTime counts the time since the previous answer as spent in the state that it saw.
func (t *terms) addTime(d time.Duration) {
	if t.previous.holder == nil {
		t.state.Unheld += d
	}
	if t.previous.holders > 1 {
		t.state.MultipleHolders += d
	}
}

// follow tells whether the term goes on, has ended, or another one has begun.
func (t *terms) follow(o *observation) {
	goesOn := t.current != nil && o.holder != nil && sameBackend(t.current, o.holder)
	if t.current != nil && !goesOn && t.asked {
		t.ended = o.at
	}
	switch {
	case o.holder == nil:
		t.current = nil
	case goesOn:
		o.holder.TermStart = t.current.TermStart
		t.current = o.holder
	default:
		if !t.ended.IsZero() {
			t.state.Handover = t.state.Handover.with(o.at.Sub(t.ended))
			t.ended = time.Time{}
		}
		o.holder.TermStart = o.serverNow
		t.current = o.holder
		t.state.Terms++
	}
}

// sameBackend reports whether two sights are of one backend: a pid is used again, a pid with its start is not.
func sameBackend(a, b *Holder) bool {
	startsKnown := !a.BackendStart.IsZero() && !b.BackendStart.IsZero()
	return a.PID == b.PID && (!startsKnown || a.BackendStart.Equal(b.BackendStart))
}
