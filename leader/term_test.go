package leader_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

var errWork = errors.New("work failed")

// R13: on a standby the context has ended already and the bool is false.
func TestTermOnAStandbyHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		r := newReplica(t, server.Client("a").Pool(t), interval)
		ctx, cancel, leads := r.Term(t.Context())
		defer cancel()
		if leads || ctx.Err() == nil || !errors.Is(context.Cause(ctx), leader.ErrLeadershipLost) {
			t.Errorf("Term = %v, %v with cause %v; want an ended context and false", ctx.Err(), leads, context.Cause(ctx))
		}
	})
}

// R13: a term's context keeps what its parent has, and ends with the parent, with its cancel function or with the term.
func TestTermContextEndsWithWhicheverComesFirst(t *testing.T) {
	type key struct{}
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		r := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		parent, endParent := context.WithDeadline(context.WithValue(t.Context(), key{}, "kept"), time.Now().Add(time.Minute))
		defer endParent()
		term := func() (context.Context, context.CancelFunc) {
			ctx, cancel, leads := r.Term(parent)
			if !leads || ctx.Err() != nil {
				t.Fatalf("Term on the leader = %v, %v", ctx.Err(), leads)
			}
			return ctx, cancel
		}
		byCancel, cancel := term()
		if deadline, ok := byCancel.Deadline(); !ok || byCancel.Value(key{}) != "kept" || time.Until(deadline) != time.Minute {
			t.Error("the term's context lost its parent's deadline or values")
		}
		cancel()
		cancel()
		if !errors.Is(byCancel.Err(), context.Canceled) || errors.Is(context.Cause(byCancel), leader.ErrLeadershipLost) {
			t.Errorf("after its cancel function: %v, cause %v", byCancel.Err(), context.Cause(byCancel))
		}
		byTerm, cancel := term()
		defer cancel()
		child, endChild := context.WithCancel(byTerm)
		defer endChild()
		terminateHolder(t, server)
		since(time.Now(), func() bool { return !r.IsLeader() })
		if !errors.Is(context.Cause(byTerm), leader.ErrLeadershipLost) || !errors.Is(context.Cause(child), leader.ErrLeadershipLost) {
			t.Errorf("after the loss: causes %v and %v of the child", context.Cause(byTerm), context.Cause(child))
		}
		time.Sleep(interval + time.Second)
		byParent, cancel := term()
		defer cancel()
		endParent()
		if errors.Is(context.Cause(byParent), leader.ErrLeadershipLost) || byParent.Err() == nil {
			t.Errorf("after the parent: %v, cause %v", byParent.Err(), context.Cause(byParent))
		}
	})
}

// I2: whoever sees a context of the term end sees a standby.
func TestLeadershipIsGoneBeforeTheContextEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		r := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		ctx, cancel, _ := r.Term(context.Background())
		defer cancel()
		var watching sync.WaitGroup
		for range 8 {
			watching.Go(func() {
				<-ctx.Done()
				r.requireStandby(t)
			})
		}
		r.stop()
		watching.Wait()
	})
}

// R14: the four rows of Do.
func TestDoRunsWorkOnTheLeaderOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		r := newReplica(t, server.Client("a").Pool(t), interval)
		if ran, err := r.Do(t.Context(), func(context.Context) error { panic("called on a standby") }); ran || err != nil {
			t.Errorf("standby: Do = %v, %v; want false, nil", ran, err)
		}
		r.run(t)
		synctest.Wait()
		for _, want := range []error{nil, errWork} {
			if ran, err := r.Do(t.Context(), func(context.Context) error { return want }); !ran || !errors.Is(err, want) {
				t.Errorf("leader: Do = %v, %v; want true, %v", ran, err, want)
			}
		}
		ran, err := r.Do(t.Context(), func(ctx context.Context) error {
			terminateHolder(t, server)
			<-ctx.Done()
			return errors.Join(errWork, context.Cause(ctx))
		})
		if ran || err != nil {
			t.Errorf("leadership lost meanwhile: Do = %v, %v; want false, nil", ran, err)
		}
		if got := r.logs.With("INFO background leader work cut short by a demotion"); len(got) != 1 {
			t.Errorf("log: %q", r.logs.With(""))
		}
	})
}

// R14: leadership lost and won again while fn ran is still a demotion.
func TestDoAcrossTwoTermsIsCutShort(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		r := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		ran, err := r.Do(t.Context(), func(ctx context.Context) error {
			terminateHolder(t, server)
			<-ctx.Done()
			since(time.Now(), r.IsLeader)
			return errWork
		})
		if !r.IsLeader() || ran || err != nil {
			t.Errorf("leads again %v, Do = %v, %v; want true, false, nil", r.IsLeader(), ran, err)
		}
	})
}

// R14: a caller that gave up gets its own error, also when leadership is lost at the same time.
func TestDoReturnsTheErrorOfACallerThatGaveUp(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		r := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		ran, err := r.Do(ctx, func(work context.Context) error {
			cancel()
			r.stop()
			<-r.returned
			return work.Err()
		})
		if !ran || !errors.Is(err, context.Canceled) {
			t.Errorf("Do = %v, %v; want true and the caller's own cancel", ran, err)
		}
	})
}

// R14: a demotion in a nested Do counts for neither.
func TestNestedDoIsCutShortOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		r := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		ran, err := r.Do(t.Context(), func(outer context.Context) error {
			_, err := r.Do(outer, func(inner context.Context) error {
				terminateHolder(t, server)
				<-inner.Done()
				return inner.Err()
			})
			return err
		})
		if ran || err != nil {
			t.Errorf("Do = %v, %v; want false, nil", ran, err)
		}
	})
}

// R13, L21: a hundred thousand terms taken and cancelled leave nothing behind.
func TestCancelledTermsLeaveNothingBehind(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		r := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		ctx := t.Context()
		for range 100_000 {
			_, cancel, leads := r.Term(ctx)
			if !leads {
				t.Fatal("the leader handed out no term")
			}
			cancel()
		}
	})
}

// R15: asking costs no memory, on a leader and on a standby.
func TestAskingAllocatesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		r := newReplica(t, server.Client("a").Pool(t), interval)
		ctx := t.Context()
		work := func(context.Context) error { return nil }
		if got := testing.AllocsPerRun(100, func() { _, _ = r.Do(ctx, work) }); got != 0 {
			t.Errorf("Do on a standby allocates %v times, want 0", got)
		}
		if got := testing.AllocsPerRun(100, func() { r.IsLeader() }); got != 0 {
			t.Errorf("IsLeader on a standby allocates %v times, want 0", got)
		}
		r.run(t)
		synctest.Wait()
		if got := testing.AllocsPerRun(100, func() { r.IsLeader() }); got != 0 {
			t.Errorf("IsLeader on the leader allocates %v times, want 0", got)
		}
	})
}
