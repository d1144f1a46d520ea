package leader_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// R22: the fence rises from term to term, on one replica and from one to the other; a standby has none.
func TestFenceRisesFromTermToTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		a := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		b := newReplica(t, server.Client("b").Pool(t), interval).run(t)
		synctest.Wait()
		last := uint64(0)
		for range 10 {
			leads, other := a, b
			if b.IsLeader() {
				leads, other = b, a
			}
			fence, ok := leads.Fence()
			if !ok || fence <= last {
				t.Errorf("fence = %d, %v; want more than %d", fence, ok, last)
			}
			last = fence
			if fence, ok := other.Fence(); ok || fence != 0 {
				t.Errorf("fence of the standby = %d, %v", fence, ok)
			}
			terminateHolder(t, server)
			time.Sleep(interval)
			synctest.Wait()
		}
	})
}

// R22: the contexts of a term carry its fence, also when it is over; others carry none.
func TestContextsOfATermCarryItsFence(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		a := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		want, _ := a.Fence()
		ctx, cancel, _ := a.Term(t.Context())
		defer cancel()
		ran, err := a.Do(t.Context(), func(ctx context.Context) error {
			if got, ok := leader.FenceFrom(ctx); !ok || got != want {
				t.Errorf("FenceFrom in Do = %d, %v; want %d", got, ok, want)
			}
			return nil
		})
		if !ran || err != nil {
			t.Errorf("Do = %v, %v", ran, err)
		}
		terminateHolder(t, server)
		time.Sleep(interval)
		synctest.Wait()
		a.requireLeader(t)
		if got, ok := leader.FenceFrom(ctx); !ok || got != want {
			t.Errorf("FenceFrom of the ended term = %d, %v; want still %d", got, ok, want)
		}
		child, stop := context.WithCancel(ctx)
		defer stop()
		if got, ok := leader.FenceFrom(child); !ok || got != want {
			t.Errorf("FenceFrom of a child = %d, %v; want %d", got, ok, want)
		}
		if _, ok := leader.FenceFrom(t.Context()); ok {
			t.Error("a context of no term has a fence")
		}
	})
}
