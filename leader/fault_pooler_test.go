package leader_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/internal/pgbouncer"
	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// bouncer starts a PgBouncer in front of a server of its own, and returns the database through it and around it.
func bouncer(t *testing.T, mode string, poolSize int) (b *pgbouncer.Bouncer, through, around *pgtest.DB) {
	t.Helper()
	server := pgtest.Cluster(t, pgserver.Options{})
	b, err := pgbouncer.Start(t.Context(), pgbouncer.Options{Server: server, Mode: mode, PoolSize: poolSize})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, &pgtest.DB{DSN: b.DSN("postgres"), Server: server}, &pgtest.DB{DSN: server.DSN("postgres"), Server: server}
}

// awaitChecks waits until the replica has made n checks that borrowed a connection or failed to.
func awaitChecks(t *testing.T, r *replica, n int64) {
	t.Helper()
	begin := r.pool.Stat().AcquireCount() + r.pool.Stat().CanceledAcquireCount()
	pgtest.Eventually(t, patience, fmt.Sprint(n, " checks"), func() (bool, string) {
		made := r.pool.Stat().AcquireCount() + r.pool.Stat().CanceledAcquireCount() - begin
		return made >= n, fmt.Sprintf("%d checks; log:\n%s", made, strings.Join(r.logs.With(""), "\n"))
	})
}

// R25, L26: behind a PgBouncer in transaction or statement mode nobody leads in 20 checks, no lock is taken, also while other
// clients move the backends about, and every attempt names the pooler.
func TestFaultPoolerInTransactionModeElectsNobody(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"transaction", "statement"} {
		for _, size := range []int{1, 5} {
			t.Run(fmt.Sprint(mode, size), func(t *testing.T) {
				t.Parallel()
				_, through, around := bouncer(t, mode, size)
				admin := around.Connect(t)
				a, b := newReplica(t, through.Pool(t), quick).run(t), newReplica(t, through.Pool(t), quick).run(t)
				traffic := through.Pool(t)
				const checks = 20
				pgtest.Eventually(t, patience, "20 warnings each", func() (bool, string) {
					_, _ = traffic.Exec(t.Context(), "SELECT 1", pgx.QueryExecModeSimpleProtocol) // a trial may end its backend
					if a.IsLeader() || b.IsLeader() {
						t.Fatalf("leaders: %v, %v", a.IsLeader(), b.IsLeader())
					}
					var taken bool // a look at whether the lock is free takes it in shared mode
					if err := admin.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory'
						AND mode = 'ExclusiveLock')`).Scan(&taken); err != nil || taken {
						t.Fatalf("the lock is taken: %v, %v", taken, err)
					}
					const named = "WARN leader: acquire lock connection: a connection pooler does not keep this client's session to itself"
					warned := min(len(a.logs.With(named)), len(b.logs.With(named)))
					return warned >= checks, strings.Join(append(a.logs.With(""), b.logs.With("")...), "\n")
				})
				a.stop()
				b.stop()
				<-a.returned
				<-b.returned
				if pids := holders(t, admin); len(pids) != 0 {
					t.Errorf("backends %v hold the lock after both stopped", pids)
				}
			})
		}
	}
}

// R25: behind a PgBouncer in session mode a replica leads in one term and hands over cleanly. With one server connection in
// all, the second waits for it, and takes over once the first has gone.
func TestFaultPoolerInSessionModeElects(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			_, through, around := bouncer(t, "session", size)
			admin := around.Connect(t)
			hasty := func(c *pgxpool.Config) { c.ConnConfig.ConnectTimeout = quick }
			a := newReplica(t, through.Pool(t, hasty), 2*quick).run(t)
			awaitLeader(t, a)
			pid := awaitHolder(t, admin)
			b := newReplica(t, through.Pool(t, hasty), 2*quick).run(t)
			awaitChecks(t, b, 20)
			if got := awaitHolder(t, admin); got != pid {
				t.Errorf("the lock moved from backend %d to %d", pid, got)
			}
			if got := a.logs.With("background leader lock"); len(got) != 1 || !strings.Contains(got[0], fmt.Sprintf("acquired pid=%d ", pid)) {
				t.Errorf("log of the leader: %q, want one term on backend %d", got, pid)
			}
			b.requireStandby(t)
			a.stop()
			<-a.returned
			if got := a.logs.With("INFO background leader lock released"); len(got) != 1 {
				t.Errorf("log: %q", a.logs.With(""))
			}
			awaitLeader(t, b)
		})
	}
}

// R20, R25: behind a session-mode pooler too, a terminated backend ends the term at once, and a mode that is changed under a
// leader at its next check; nobody leads then.
func TestFaultPoolerModeChangesUnderALeader(t *testing.T) {
	t.Parallel()
	const backends = 5
	b, through, around := bouncer(t, "session", backends)
	admin := around.Connect(t)
	r := newReplica(t, through.Pool(t), quick).run(t)
	awaitLeader(t, r)
	pid := awaitHolder(t, admin)
	terminate(t, admin, pid)
	pgtest.Eventually(t, patience, "the loss with the server's reason", func() (bool, string) {
		lost := r.logs.With("WARN background leader lock lost")
		return len(lost) == 1 && strings.Contains(lost[0], "57P01"), strings.Join(r.logs.With(""), "\n")
	})
	awaitLeader(t, r)
	if err := b.Reload(t.Context(), "transaction"); err != nil {
		t.Fatal(err)
	}
	// As many busy clients as backends: fewer keep to the backends that they had last, and the leader's stays its own.
	traffic := through.Pool(t, func(c *pgxpool.Config) { c.MaxConns = backends })
	busy, stop := context.WithCancel(t.Context())
	defer stop()
	for range backends {
		go func() {
			for busy.Err() == nil {
				_, _ = traffic.Exec(busy, "SELECT pg_sleep(0.05)", pgx.QueryExecModeSimpleProtocol)
			}
		}()
	}
	pgtest.Eventually(t, patience, "the pooler is named, the lock is free, nobody leads", func() (bool, string) {
		named := r.logs.With("a connection pooler does not keep this client's session to itself")
		return !r.IsLeader() && len(named) > 0 && len(holders(t, admin)) == 0, strings.Join(r.logs.With(""), "\n")
	})
}
