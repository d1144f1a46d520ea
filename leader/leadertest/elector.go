package leadertest

import (
	"context"
	"errors"
	"sync"

	"github.com/plexsphere/leader-exporter/leader"
)

// Elector stands in for a leader.Elector where a test wants to say itself when its replica leads: Do, Term and IsLeader are as
// there, without a database. The zero value is a standby. All methods are safe from any goroutine. Its terms have no fence.
type Elector struct {
	mu   sync.Mutex
	term *fakeTerm // nil on a standby; guarded by mu
}

// fakeTerm is a term, with the contexts that end with it; the Elector's mu guards them.
type fakeTerm struct {
	members map[*context.CancelCauseFunc]struct{}
}

// Lead begins a term, if none is open.
func (e *Elector) Lead() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == nil {
		e.term = &fakeTerm{members: make(map[*context.CancelCauseFunc]struct{})}
	}
}

// Lose ends the term, if one is open: when it returns, all contexts of the term have ended with leader.ErrLeadershipLost.
func (e *Elector) Lose() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == nil {
		return
	}
	for cancel := range e.term.members {
		(*cancel)(leader.ErrLeadershipLost)
	}
	e.term = nil
}

// IsLeader reports whether a term is open.
func (e *Elector) IsLeader() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term != nil
}

// Term is Elector.Term of package leader.
func (e *Elector) Term(parent context.Context) (context.Context, context.CancelFunc, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ctx, cancel := context.WithCancelCause(parent)
	t := e.term
	if t == nil {
		cancel(leader.ErrLeadershipLost)
		return ctx, func() { cancel(nil) }, false
	}
	t.members[&cancel] = struct{}{}
	return ctx, func() {
		cancel(nil)
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(t.members, &cancel)
	}, true
}

// Do is Elector.Do of package leader, without its line of the log.
func (e *Elector) Do(ctx context.Context, fn func(context.Context) error) (bool, error) {
	term, cancel, leads := e.Term(ctx)
	defer cancel()
	if !leads {
		return false, nil
	}
	err := fn(term)
	if ctx.Err() == nil && errors.Is(context.Cause(term), leader.ErrLeadershipLost) {
		return false, nil
	}
	return true, err
}
