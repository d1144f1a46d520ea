package leader_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
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

// R22: the statement of the example refuses a leader that was replaced, and lets its successor write.
func TestPostgresFencedWriteOfAReplacedLeaderIsRefused(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	admin := db.Connect(t)
	if _, err := admin.Exec(t.Context(), `CREATE TABLE cursors (name text PRIMARY KEY, position bigint, fence bigint);
		INSERT INTO cursors VALUES ('relay', 0, 0)`); err != nil {
		t.Fatal(err)
	}
	a := newReplica(t, db.Pool(t), quick).run(t)
	awaitLeader(t, a)
	old, cancel, _ := a.Term(t.Context())
	defer cancel()
	if err := moveCursor(old, a.pool, 1); err != nil {
		t.Errorf("the leader's write: %v", err)
	}
	if err := a.StepDown(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	b := newReplica(t, db.Pool(t), quick).run(t)
	awaitLeader(t, b)
	if ran, err := b.Do(t.Context(), func(ctx context.Context) error { return moveCursor(ctx, b.pool, 2) }); !ran || err != nil {
		t.Errorf("the successor's write: %v, %v", ran, err)
	}
	// The paused leader's work goes on: its context has ended, a write that does not look at it comes too late.
	if err := moveCursor(context.WithoutCancel(old), a.pool, 1); !errors.Is(err, errReplaced) {
		t.Errorf("the replaced leader's write = %v, want %v", err, errReplaced)
	}
	var position int64
	if err := admin.QueryRow(t.Context(), "SELECT position FROM cursors").Scan(&position); err != nil || position != 2 {
		t.Errorf("position = %d, %v; want the successor's 2", position, err)
	}
}

// R22: a server that crashes right after a grant hands out a greater fence afterwards, though the lock statement changed
// nothing that PostgreSQL would flush by itself.
func TestPostgresFenceRisesAcrossCrashes(t *testing.T) {
	t.Parallel()
	server := pgtest.Cluster(t, pgserver.Options{Settings: map[string]string{"wal_writer_delay": "10s"}})
	last := uint64(0)
	for range 4 {
		r := newReplica(t, (&pgtest.DB{DSN: server.DSN("postgres")}).Pool(t), quick).run(t)
		awaitLeader(t, r)
		fence, _ := r.Fence()
		if err := server.Stop(pgserver.Immediate); err != nil {
			t.Fatal(err)
		}
		if fence <= last {
			t.Errorf("fence %d after %d", fence, last)
		}
		last = fence
		r.stop()
		<-r.returned
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
