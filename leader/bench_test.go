package leader_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// unmeasured is a CheckInterval so long that no check falls into a benchmark.
const unmeasured = time.Hour

// guardedBool is what one would write without package leader: the same questions, answered under a mutex, without terms.
type guardedBool struct {
	mu    sync.Mutex
	leads bool
}

func (g *guardedBool) IsLeader() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leads
}

func (g *guardedBool) Do(ctx context.Context, fn func(context.Context) error) (bool, error) {
	if !g.IsLeader() {
		return false, nil
	}
	return true, fn(ctx)
}

// benchmarkPool returns a pool on a database of its own.
func benchmarkPool(b *testing.B) *pgxpool.Pool {
	b.Helper()
	return pgtest.Database(b).Pool(b)
}

// benchmarkLeader returns a replica that leads.
func benchmarkLeader(b *testing.B) *replica {
	b.Helper()
	r := newReplica(b, benchmarkPool(b), unmeasured).run(b)
	pgtest.Eventually(b, patience, "the replica leads", func() (bool, string) { return r.IsLeader(), "standby" })
	return r
}

func BenchmarkIsLeader(b *testing.B) {
	for _, bench := range []struct {
		name string
		ask  func(b *testing.B) interface{ IsLeader() bool }
	}{
		{"leader", func(b *testing.B) interface{ IsLeader() bool } { return benchmarkLeader(b).Elector }},
		{"standby", func(b *testing.B) interface{ IsLeader() bool } {
			return newReplica(b, benchmarkPool(b), unmeasured).Elector
		}},
		{"guarded bool", func(*testing.B) interface{ IsLeader() bool } { return &guardedBool{} }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			asked := bench.ask(b)
			b.ReportAllocs()
			for b.Loop() {
				asked.IsLeader()
			}
		})
	}
}

// doer is the elector or its plain alternative.
type doer interface {
	Do(ctx context.Context, fn func(context.Context) error) (bool, error)
}

func BenchmarkDo(b *testing.B) {
	for _, bench := range []struct {
		name  string
		leads bool
		ask   func(b *testing.B) doer
	}{
		{"standby", false, func(b *testing.B) doer { return newReplica(b, benchmarkPool(b), unmeasured).Elector }},
		{"standby, guarded bool", false, func(*testing.B) doer { return &guardedBool{} }},
		{"leader", true, func(b *testing.B) doer { return benchmarkLeader(b).Elector }},
		{"leader, guarded bool", true, func(*testing.B) doer { return &guardedBool{leads: true} }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			asked, ctx := bench.ask(b), b.Context()
			work := func(context.Context) error { return nil }
			b.ReportAllocs()
			for b.Loop() {
				if ran, err := asked.Do(ctx, work); ran != bench.leads || err != nil {
					b.Fatalf("Do = %v, %v", ran, err)
				}
			}
		})
	}
}

// BenchmarkTerm compares a term's context with the plain one that it adds the term to.
func BenchmarkTerm(b *testing.B) {
	b.Run("leader", func(b *testing.B) {
		r, ctx := benchmarkLeader(b), b.Context()
		b.ReportAllocs()
		for b.Loop() {
			_, cancel, leads := r.Term(ctx)
			if !leads {
				b.Fatal("the leader handed out no term")
			}
			cancel()
		}
	})
	b.Run("standby", func(b *testing.B) {
		r, ctx := newReplica(b, benchmarkPool(b), unmeasured), b.Context()
		b.ReportAllocs()
		for b.Loop() {
			_, cancel, _ := r.Term(ctx)
			cancel()
		}
	})
	b.Run("plain context", func(b *testing.B) {
		ctx, done := b.Context(), errors.New("done")
		b.ReportAllocs()
		for b.Loop() {
			_, cancel := context.WithCancelCause(ctx)
			cancel(done)
		}
	})
}
