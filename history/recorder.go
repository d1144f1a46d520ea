package history

import (
	"context"
	"log/slog"
	"sync"

	"github.com/plexsphere/leader-exporter/lockwatch"
)

// maxPending is how many terms wait for a disk that refuses. What is more is lost, and the log says so.
const maxPending = 10_000

// Recorder writes into a Store what watchers see, in a goroutine of its own, so that no watcher waits for a disk, and tells of terms as
// if all of it were written. Make it with NewRecorder, and run it.
type Recorder struct {
	store  *Store
	logger *slog.Logger
	wake   chan struct{}

	failing bool // the last attempt to write failed; owned by the goroutine that writes

	mu      sync.Mutex // guards the fields below; never held while writing
	open    batch      // all terms without an end, as last seen
	sighted batch      // those of them that were seen again since they last went into pending
	pending batch      // what waits
	writing batch      // what is on its way into the Store
	waiting int        // terms in pending
	lost    int        // terms for which pending had no room
}

// batch has terms by target.
type batch map[string]map[termID]lockwatch.Term

// termID tells the terms of a target apart.
type termID struct {
	datname, lock string
	start         int64
	pid           uint32
}

func idOf(t lockwatch.Term) termID {
	return termID{t.Datname, t.Lock, t.Holder.TermStart.UnixNano(), t.Holder.PID}
}

func (b batch) set(target string, t lockwatch.Term) {
	if b[target] == nil {
		b[target] = make(map[termID]lockwatch.Term)
	}
	b[target][idOf(t)] = t
}

// NewRecorder returns a Recorder that writes into the store, of which it reads the open terms. It logs when they cannot be read, when writing
// fails, when it succeeds again, and what is lost.
func NewRecorder(store *Store, logger *slog.Logger) *Recorder {
	r := &Recorder{
		store: store, logger: logger, wake: make(chan struct{}, 1),
		open: make(batch), sighted: make(batch), pending: make(batch),
	}
	open, err := store.OpenTerms()
	if err != nil {
		logger.ErrorContext(context.Background(), "the history cannot be read: terms that go on are taken for new ones", slog.Any("error", err))
	}
	for _, e := range open {
		r.open.set(e.Target, e.Term)
	}
	return r
}

// Note takes a new snapshot of the target: terms that began or ended are written soon, and once a minute when the others were last
// seen. It never waits for the disk. Safe from any goroutine.
func (r *Recorder) Note(target string, s lockwatch.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range s.Changes {
		r.enterLocked(target, t)
		delete(r.sighted[target], idOf(t))
		if t.End.IsZero() {
			r.open.set(target, t)
		} else {
			delete(r.open[target], idOf(t))
		}
	}
	for _, lock := range s.Locks {
		if lock.Term == nil || r.open[target][idOf(*lock.Term)] == *lock.Term {
			continue
		}
		r.open.set(target, *lock.Term)
		r.sighted.set(target, *lock.Term)
	}
	if len(s.Changes) > 0 {
		r.wakeUp()
	}
}

// Forget takes that the target is not watched any more. Its terms that went on stay without an end, as far as they were seen, and are
// written soon.
func (r *Recorder) Forget(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checkpointLocked(target)
	r.wakeUp()
}

// OpenTerms returns the terms of the target that have no end, as last seen, whether they are written already or not. It never waits for
// the disk. Safe from any goroutine.
func (r *Recorder) OpenTerms(target string) (open []lockwatch.Term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.open[target] {
		open = append(open, t)
	}
	return open
}

// Terms is Store.Terms, as if all that was noted were written. It waits for no write. Safe from any goroutine.
func (r *Recorder) Terms(q Query) (Page, error) {
	return r.store.terms(q, r.unwritten())
}

// unwritten returns the terms that the Store may not have, or not in this state. Where it has them by now, it has the same or later.
func (r *Recorder) unwritten() batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(batch)
	for _, part := range []batch{r.writing, r.pending, r.sighted} { // the newest last
		for target, terms := range part {
			for _, t := range terms {
				all.set(target, t)
			}
		}
	}
	return all
}

// checkpointLocked lets it be written when the terms of the target that go on were last seen. Where there is no room, that stays as it is.
func (r *Recorder) checkpointLocked(target string) {
	for id, t := range r.sighted[target] {
		if _, waits := r.pending[target][id]; waits || r.waiting < maxPending {
			r.enterLocked(target, t)
			delete(r.sighted[target], id)
		}
	}
}

// enterLocked lets a term be written. One that waits already is replaced.
func (r *Recorder) enterLocked(target string, t lockwatch.Term) {
	if _, waits := r.pending[target][idOf(t)]; !waits {
		if r.waiting >= maxPending {
			r.lost++
			return
		}
		r.waiting++
	}
	r.pending.set(target, t)
}

func (r *Recorder) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default: // it is awake
	}
}
