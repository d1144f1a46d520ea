package lockwatch

import (
	"slices"
	"time"

	"github.com/plexsphere/leader-exporter/lockkey"
)

// observation is what one answered poll saw of a lock.
type observation struct {
	at        time.Time // this machine's clock, monotonic
	asked     time.Time // when the statement began, by the server's clock: the locks were read between this
	serverNow time.Time // and this
	server    Server
	holders   int
	waiters   int
	holder    *Holder // without TermStart
	vanished  bool    // the holder's backend had ended when pg_stat_activity was read: of the holder, the pid alone is known
}

// terms keeps the books of one lock over the polls.
type terms struct {
	key   lockkey.Key
	state LockState // its Term survives unanswered polls

	asked    bool        // the previous poll was answered
	previous observation // valid while asked
	server   Server      // of the last answered poll
	seen     time.Time   // when the last answered poll asked, by the server's clock; zero before the first on this cluster
	ended    time.Time   // when the last term was seen to have ended; zero when unknown
}

// newTerms opens the books of a lock.
func newTerms(datname string, lock Lock) *terms {
	return &terms{key: lock.Key, state: LockState{
		Datname:  datname,
		Lock:     lock.Name,
		Expected: len(lock.ExpectedApplicationNames) > 0,
		Handover: newHistogram(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 20, 30, 60, 120, 300),
	}}
}

// unanswered notes that the server could not be asked: what happens until the next answer is not known.
func (t *terms) unanswered() {
	t.asked = false
	t.ended = time.Time{}
	t.state.Known, t.state.Holders, t.state.Waiters, t.state.Holder = false, 0, 0, nil
}

// leave notes that polls tell of another cluster now, whose clock is another one, and returns the term that nobody sees any more, if
// there is one.
func (t *terms) leave() *Term {
	t.unanswered()
	t.seen = time.Time{}
	left := t.state.Term
	t.state.Term = nil
	return left
}

// observe notes an answer, and returns the terms that it shows to have ended or begun. earlier are terms of this lock that went on
// when they were last seen, and of which it is the first answer since.
func (t *terms) observe(o observation, earlier ...Term) (changes []Term) {
	if t.asked {
		t.addTime(o.at.Sub(t.previous.at))
	}
	changes = t.follow(&o, earlier)
	t.state.Known, t.state.Holders, t.state.Waiters, t.state.Holder = true, o.holders, o.waiters, o.holder
	t.asked, t.previous, t.server, t.seen = true, o, o.server, o.asked
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

// follow tells which term goes on, if one does, which have ended, and whether another one has begun.
func (t *terms) follow(o *observation, earlier []Term) (changes []Term) {
	open := earlier
	if t.state.Term != nil {
		open = append(slices.Clone(earlier), *t.state.Term)
	}
	on := -1
	for i := range open {
		if o.holder != nil && open[i].goesOn(o.holder, o.server) && (on < 0 || !open[i].LastSeen.Before(open[on].LastSeen)) {
			on = i
		}
	}
	if t.asked && t.state.Term != nil && on < 0 {
		t.ended = o.at
	}
	for i, term := range open {
		if i != on {
			changes = append(changes, term.ended(o.serverNow))
		}
	}
	t.state.Term = nil
	switch {
	case on >= 0:
		t.goOn(open[on], o)
	case o.holder != nil:
		changes = append(changes, t.begin(o))
	}
	return changes
}

// begin opens the term of a holder that is not that of the one before.
func (t *terms) begin(o *observation) Term {
	if !t.ended.IsZero() {
		t.state.Handover = t.state.Handover.with(o.at.Sub(t.ended))
		t.ended = time.Time{}
	}
	o.holder.TermStart = o.serverNow
	if t.seen.After(o.serverNow) {
		t.seen = time.Time{} // the server's clock was set back, and says nothing of then
	}
	t.state.Term = &Term{
		Datname: t.state.Datname, Lock: t.state.Lock, Key: t.key, Server: o.server, Holder: *o.holder, After: t.seen, LastSeen: o.serverNow,
	}
	t.state.Terms++
	return *t.state.Term
}

// goOn notes that the term was seen again. Snapshots share what they have of it, so this is another one.
func (t *terms) goOn(next Term, o *observation) {
	if o.vanished {
		known := next.Holder
		known.HeartbeatAge = o.holder.HeartbeatAge
		o.holder = &known
	}
	o.holder.TermStart = next.Holder.TermStart
	next.Holder, next.Key, next.Server = *o.holder, t.key, o.server
	if o.asked.After(next.LastSeen) {
		next.LastSeen = o.asked
	}
	t.state.Term = &next
	t.state.Terms = max(t.state.Terms, 1) // one that an earlier Watcher has seen begin is new to this one's counter
}

// ended returns the term with its end, since a poll at that time did not show it any more.
func (t Term) ended(serverNow time.Time) Term {
	t.End = serverNow
	if t.End.Before(t.LastSeen) {
		t.End = t.LastSeen // the server's clock was set back
	}
	return t
}
