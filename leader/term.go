package leader

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// ErrLeadershipLost is the cause of every context of a term that has ended: after a failed check, a panic in Run, a
// step-down, and the clean end of Run alike. Read it with context.Cause.
var ErrLeadershipLost = errors.New("leader: leadership lost")

// term is one unbroken stretch of leadership.
type term struct {
	fence    uint64
	checked  atomic.Pointer[time.Time] // when the last good check was sent
	watchdog *time.Timer               // ends the term once it is stale
	members  map[*member]struct{}      // guarded by Elector.mu
}

// member is one context that lives on a term.
type member struct {
	cancel context.CancelCauseFunc
}

// Term returns a context that ends when parent ends or when the replica stops leading, whichever comes first; in the
// second case context.Cause returns ErrLeadershipLost. On a standby the bool is false and the context has already ended,
// with the same cause. Always call the cancel function. Safe from any goroutine.
func (e *Elector) Term(parent context.Context) (context.Context, context.CancelFunc, bool) {
	if t := e.leading(); t != nil {
		if ctx, leave, ok := e.join(parent, t); ok {
			return ctx, leave, true
		}
	}
	ctx, cancel := context.WithCancelCause(parent)
	cancel(ErrLeadershipLost)
	return ctx, func() { cancel(nil) }, false
}

// Do runs one unit of background work if the replica leads. fn receives a context of the term, so it can stop when
// leadership ends. Safe from any goroutine; calls do not wait for each other.
//
// On a standby fn is not called and the result is (false, nil). When leadership held until fn returned, the result is
// (true, err) with fn's error. When leadership was lost meanwhile and ctx is still live, the result is (false, nil),
// whatever fn returned, and one INFO line says so: a demotion is no failure of the work.
func (e *Elector) Do(ctx context.Context, fn func(context.Context) error) (bool, error) {
	t := e.leading()
	if t == nil {
		return false, nil
	}
	termCtx, leave, ok := e.join(ctx, t)
	if !ok {
		return false, nil
	}
	defer leave()
	err := fn(termCtx)
	if e.leading() != t && ctx.Err() == nil {
		e.logger.InfoContext(ctx, "background leader work cut short by a demotion", slog.Any("error", err))
		return false, nil
	}
	return true, err
}

// IsLeader reports whether the replica holds the lock as far as a check of the last three CheckIntervals knows. It reads an
// atomic value and, on the leader, the clock; it allocates nothing and is safe from any goroutine.
func (e *Elector) IsLeader() bool { return e.leading() != nil }

// startTerm makes the replica the leader, unless meanwhile ctx, Run's, has ended, a step-down was asked for, or the process
// was paused for so long that the grant is stale. Whoever ends the term at the end of ctx holds mu too, and so comes before
// this or finds the term. Called by Run only, and never while a term is open.
func (e *Elector) startTerm(ctx context.Context, fence uint64, sent time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Err() != nil || e.asked != nil || e.isStale(sent) {
		return false
	}
	t := &term{fence: fence, members: make(map[*member]struct{})}
	t.checked.Store(&sent)
	t.watchdog = time.AfterFunc(e.untilStale(sent), func() { e.expire(t) })
	e.current.Store(t)
	e.gauge.Set(1)
	return true
}

// endTerm makes the replica a standby and does nothing on one. When it returns, every context of the term has ended, also
// when another goroutine was ending the same term.
func (e *Elector) endTerm() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endTermLocked()
}

// end is endTerm for t and no other term. It is for those who may come late, when the next term has begun.
func (e *Elector) end(t *term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current.Load() == t {
		e.endTermLocked()
	}
}

func (e *Elector) endTermLocked() {
	t := e.current.Swap(nil)
	if t == nil {
		return
	}
	t.watchdog.Stop()
	e.gauge.Set(0)
	for m := range t.members {
		m.cancel(ErrLeadershipLost)
	}
}

// join returns a child of parent that ends with t, unless t is over.
func (e *Elector) join(parent context.Context, t *term) (context.Context, context.CancelFunc, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current.Load() != t {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, termKey{}, t))
	m := &member{cancel: cancel}
	t.members[m] = struct{}{}
	leave := func() {
		e.mu.Lock()
		delete(t.members, m)
		e.mu.Unlock()
		cancel(nil)
	}
	return ctx, leave, true
}
