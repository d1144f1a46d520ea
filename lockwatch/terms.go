package lockwatch

import "time"

// observation is what one answered poll saw of a lock.
type observation struct {
	at        time.Time // this machine's clock, monotonic
	asked     time.Time // when the statement began, by the server's clock: the locks were read between this
	serverNow time.Time // and this
	holders   int
	waiters   int
	holder    *Holder // without TermStart
}

// terms keeps the books of one lock over the polls.
type terms struct {
	state LockState // its Term survives unanswered polls

	asked    bool        // the previous poll was answered
	previous observation // valid while asked
	seen     time.Time   // when the last answered poll asked, by the server's clock; zero before the first
	ended    time.Time   // when the last term was seen to have ended; zero when unknown
}

// newTerms opens the books of a lock. resumed is the term that went on when an earlier Watcher saw it last, or nil.
func newTerms(datname, lock string, resumed *Term) *terms {
	return &terms{state: LockState{
		Datname:  datname,
		Lock:     lock,
		Term:     resumed,
		Handover: newHistogram(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 20, 30, 60, 120, 300),
	}}
}

// unanswered notes that the server could not be asked: what happens until the next answer is not known.
func (t *terms) unanswered() {
	t.asked = false
	t.ended = time.Time{}
	t.state.Known, t.state.Holders, t.state.Waiters, t.state.Holder = false, 0, 0, nil
}

// observe notes an answer, and returns the terms that it shows to have ended or begun.
func (t *terms) observe(o observation) (changes []Term) {
	if t.asked {
		t.addTime(o.at.Sub(t.previous.at))
	}
	changes = t.follow(&o)
	t.state.Known, t.state.Holders, t.state.Waiters, t.state.Holder = true, o.holders, o.waiters, o.holder
	t.asked, t.previous, t.seen = true, o, o.asked
	return changes
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
func (t *terms) follow(o *observation) (changes []Term) {
	if t.state.Term != nil && o.holder != nil && sameBackend(&t.state.Term.Holder, o.holder) {
		t.goOn(o)
		return nil
	}
	if t.state.Term != nil {
		if t.asked {
			t.ended = o.at
		}
		changes = append(changes, t.end(o.serverNow))
	}
	if o.holder != nil {
		if !t.ended.IsZero() {
			t.state.Handover = t.state.Handover.with(o.at.Sub(t.ended))
			t.ended = time.Time{}
		}
		o.holder.TermStart = o.serverNow
		t.state.Term = &Term{Datname: t.state.Datname, Lock: t.state.Lock, Holder: *o.holder, After: t.seen, LastSeen: o.serverNow}
		t.state.Terms++
		changes = append(changes, *t.state.Term)
	}
	return changes
}

// goOn notes that the term was seen again. Snapshots share the term before, so it stays as it is.
func (t *terms) goOn(o *observation) {
	next := *t.state.Term
	o.holder.TermStart = next.Holder.TermStart
	next.Holder = *o.holder
	if o.asked.After(next.LastSeen) {
		next.LastSeen = o.asked
	}
	t.state.Term = &next
	t.state.Terms = max(t.state.Terms, 1) // one that an earlier Watcher has seen begin is new to this one's counter
}

// end closes the term, which a poll at that time did not show any more.
func (t *terms) end(serverNow time.Time) Term {
	ended := *t.state.Term
	ended.End = serverNow
	if ended.End.Before(ended.LastSeen) {
		ended.End = ended.LastSeen // the server's clock was set back, or the server is another one
	}
	t.state.Term = nil
	return ended
}

// sameBackend reports whether two sights are of one backend: a pid is used again, a pid with its start is not.
func sameBackend(a, b *Holder) bool {
	startsKnown := !a.BackendStart.IsZero() && !b.BackendStart.IsZero()
	return a.PID == b.PID && (!startsKnown || a.BackendStart.Equal(b.BackendStart))
}
