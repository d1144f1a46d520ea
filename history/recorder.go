package history

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/plexsphere/leader-exporter/lockwatch"
)

const (
	// checkpointEvery is how often it is written when the terms that go on were last seen: so much of that time a crash loses.
	checkpointEvery = time.Minute
	// expireEvery is how often old terms are deleted.
	expireEvery = time.Hour
	// retryAfter is how long a disk that refuses is left alone.
	retryAfter = 5 * time.Second
	// maxPending is how many terms wait for a disk that refuses. What is more is lost, and the log says so.
	maxPending = 10_000
)

// Recorder writes into a Store what watchers see, in a goroutine of its own, so that no watcher waits for a disk. Make it with
// NewRecorder, and run it.
type Recorder struct {
	store  *Store
	logger *slog.Logger
	wake   chan struct{}

	writing sync.Mutex // held while terms are on their way into the Store; guards failing
	failing bool       // the last attempt to write failed

	mu      sync.Mutex // guards the fields below; never held while writing
	pending map[string]map[termID]lockwatch.Term
	seen    map[string][]lockwatch.Term // the terms that go on, as last seen
	waiting int                         // terms in pending
	lost    int                         // terms for which pending had no room
}

// termID tells the terms of a target apart.
type termID struct {
	datname, lock string
	start         int64
	pid           uint32
}

func idOf(t lockwatch.Term) termID {
	return termID{t.Datname, t.Lock, t.Holder.TermStart.UnixNano(), t.Holder.PID}
}

// NewRecorder returns a Recorder that writes into the store. It logs when writing fails, and when it succeeds again.
func NewRecorder(store *Store, logger *slog.Logger) *Recorder {
	return &Recorder{
		store: store, logger: logger, wake: make(chan struct{}, 1),
		pending: make(map[string]map[termID]lockwatch.Term), seen: make(map[string][]lockwatch.Term),
	}
}

// Note takes a new snapshot of the target: terms that began or ended are written soon, and once a minute when the others were last
// seen. It never waits for the disk. Safe from any goroutine.
func (r *Recorder) Note(target string, s lockwatch.Snapshot) {
	var seen []lockwatch.Term
	for _, lock := range s.Locks {
		if lock.Term != nil {
			seen = append(seen, *lock.Term)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[target] = seen
	r.enterLocked(target, s.Changes...)
	if len(s.Changes) > 0 {
		r.wakeUp()
	}
}

// Forget takes that the target is not watched any more. Its terms that went on stay without an end, as far as they were seen.
func (r *Recorder) Forget(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enterLocked(target, r.seen[target]...)
	delete(r.seen, target)
	r.wakeUp()
}

// OpenTerms returns the terms of the target that have no end, as last seen, whether they are written already or not.
func (r *Recorder) OpenTerms(target string) ([]lockwatch.Term, error) {
	r.writing.Lock() // what is on its way has arrived then
	defer r.writing.Unlock()
	written, err := r.store.OpenTerms(target)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := make(map[termID]lockwatch.Term)
	for _, t := range written {
		newest[idOf(t)] = t
	}
	for id, t := range r.pending[target] {
		newest[id] = t
	}
	for _, t := range r.seen[target] {
		newest[idOf(t)] = t
	}
	var open []lockwatch.Term
	for _, t := range newest {
		if t.End.IsZero() {
			open = append(open, t)
		}
	}
	return open, nil
}

// Run writes until ctx ends, and then once more. It deletes what is older than the Store's retention, at once and then every hour.
func (r *Recorder) Run(ctx context.Context) {
	checkpoints := time.NewTicker(checkpointEvery)
	defer checkpoints.Stop()
	expiries := time.NewTicker(expireEvery)
	defer expiries.Stop()
	retry := time.NewTimer(0) // the first write has nothing to do
	defer retry.Stop()
	r.expire(ctx)
	for {
		select {
		case <-ctx.Done():
			r.checkpoint()
			r.write(context.WithoutCancel(ctx))
			return
		case <-expiries.C:
			r.expire(ctx)
			continue
		case <-checkpoints.C:
			r.checkpoint()
		case <-r.wake:
		case <-retry.C:
		}
		if !r.write(ctx) {
			retry.Reset(retryAfter)
		}
	}
}

// checkpoint lets it be written when terms that go on were last seen.
func (r *Recorder) checkpoint() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for target, terms := range r.seen {
		r.enterLocked(target, terms...)
	}
}

// enterLocked lets terms be written. One that waits already is replaced.
func (r *Recorder) enterLocked(target string, terms ...lockwatch.Term) {
	for _, t := range terms {
		if _, waits := r.pending[target][idOf(t)]; !waits {
			if r.waiting >= maxPending {
				r.lost++
				continue
			}
			r.waiting++
		}
		if r.pending[target] == nil {
			r.pending[target] = make(map[termID]lockwatch.Term)
		}
		r.pending[target][idOf(t)] = t
	}
}

func (r *Recorder) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default: // it is awake
	}
}

// write writes what waits, and reports whether all of it could be.
func (r *Recorder) write(ctx context.Context) bool {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	work, lost := r.pending, r.lost
	r.pending, r.waiting, r.lost = make(map[string]map[termID]lockwatch.Term), 0, 0
	r.mu.Unlock()
	var failure error
	for target, terms := range work {
		batch := make([]lockwatch.Term, 0, len(terms))
		for _, t := range terms {
			batch = append(batch, t)
		}
		if err := r.store.Put(target, batch...); err != nil {
			failure = err
			r.putBack(target, terms)
		}
	}
	r.tell(ctx, failure, lost)
	return failure == nil
}

// putBack lets terms wait again, unless something newer of them waits already.
func (r *Recorder) putBack(target string, terms map[termID]lockwatch.Term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, t := range terms {
		if _, newer := r.pending[target][id]; !newer {
			r.enterLocked(target, t)
		}
	}
}

// tell logs when writing begins to fail, when it succeeds again, and that terms were lost.
func (r *Recorder) tell(ctx context.Context, failure error, lost int) {
	if failing := failure != nil; failing != r.failing {
		r.failing = failing
		if failing {
			r.logger.ErrorContext(ctx, "the history cannot be written: terms wait in memory", slog.Any("error", failure))
		} else {
			r.logger.InfoContext(ctx, "the history is written again")
		}
	}
	if lost > 0 {
		r.logger.ErrorContext(ctx, "terms were lost: too many waited for the history", slog.Int("terms", lost))
	}
}

func (r *Recorder) expire(ctx context.Context) {
	n, err := r.store.Expire(time.Now())
	if err != nil {
		r.logger.ErrorContext(ctx, "old terms cannot be deleted", slog.Any("error", err))
	} else if n > 0 {
		r.logger.InfoContext(ctx, "old terms deleted", slog.Int("terms", n))
	}
}
