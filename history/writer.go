package history

import (
	"context"
	"log/slog"
	"maps"
	"slices"
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
	// lastWrite bounds what is written at the stop: a disk that hangs does not keep the process.
	lastWrite = 5 * time.Second
)

// Run writes until ctx ends, and then once more, for no longer than 5 s; the log says how many terms are lost thereby. It deletes what is
// older than the Store's retention, at once and then every hour. A write that the disk does not end goes on after Run, in a
// goroutine that nobody waits for: it has no deadline of its own.
func (r *Recorder) Run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.writeUntil(ctx)
	}()
	<-ctx.Done()
	timer := time.NewTimer(lastWrite)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	if n := r.loss(); n > 0 {
		r.logger.ErrorContext(context.WithoutCancel(ctx), "terms were lost: the history did not take them before the stop", slog.Int("terms", n))
	}
}

// loss returns how many terms the Store does not have, or not as they were seen last.
func (r *Recorder) loss() (n int) {
	for _, terms := range r.unwritten() {
		n += len(terms)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return n + r.lost
}

// writeUntil writes what comes until ctx ends, and then the rest.
func (r *Recorder) writeUntil(ctx context.Context) {
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

func (r *Recorder) checkpoint() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for target := range r.sighted {
		r.checkpointLocked(target)
	}
}

// write writes what waits, and reports whether all of it could be.
func (r *Recorder) write(ctx context.Context) bool {
	r.mu.Lock()
	work := r.pending
	r.writing, r.pending, r.waiting = maps.Clone(work), make(batch), 0
	r.mu.Unlock()
	var failure error
	for target, terms := range work {
		err := r.store.Put(target, slices.Collect(maps.Values(terms))...)
		r.written(target, err == nil)
		if err != nil {
			failure = err
		}
	}
	r.tell(ctx, failure)
	return failure == nil
}

// written notes how the write of a target's terms went. After a failure they wait again, unless something newer of them waits already.
func (r *Recorder) written(target string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	terms := r.writing[target]
	delete(r.writing, target)
	if ok {
		return
	}
	for id, t := range terms {
		if _, newer := r.pending[target][id]; !newer {
			r.enterLocked(target, t)
		}
	}
}

// tell logs when writing begins to fail, when it succeeds again, and that terms were lost.
func (r *Recorder) tell(ctx context.Context, failure error) {
	if failing := failure != nil; failing != r.failing {
		r.failing = failing
		if failing {
			r.logger.ErrorContext(ctx, "the history cannot be written: terms wait in memory", slog.Any("error", failure))
		} else {
			r.logger.InfoContext(ctx, "the history is written again")
		}
	}
	r.mu.Lock()
	lost := r.lost
	r.lost = 0
	r.mu.Unlock()
	if lost > 0 {
		r.logger.ErrorContext(ctx, "terms were lost: too many waited for the history", slog.Int("terms", lost))
	}
}

// expire deletes what is old from the Store, and of the open terms in memory what the Store has no more.
func (r *Recorder) expire(ctx context.Context) {
	now := time.Now()
	n, err := r.store.Expire(now)
	if err != nil {
		r.logger.ErrorContext(ctx, "old terms cannot be deleted", slog.Any("error", err))
		return
	}
	if n > 0 {
		r.logger.InfoContext(ctx, "old terms deleted", slog.Int("terms", n))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, terms := range r.open {
		maps.DeleteFunc(terms, func(_ termID, t lockwatch.Term) bool { return t.LastSeen.Before(now.Add(-r.store.cfg.Retention)) })
	}
}
