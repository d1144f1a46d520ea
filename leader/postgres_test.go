package leader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/leader"
)

const (
	// quick is the CheckInterval of the replicas on real servers. Shorter, and a machine that stands still for a moment costs a term.
	quick = 500 * time.Millisecond
	// patience is how long a fact may take before a test on a real server gives up.
	patience = 30 * time.Second
)

// holders returns the backends that hold the leader's lock, by the spec's query.
func holders(t *testing.T, conn *pgx.Conn) []uint32 {
	t.Helper()
	rows, err := conn.Query(t.Context(), `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = 1886156915
		AND objid = 1 AND objsubid = 2 AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	if err != nil {
		t.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[uint32])
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

// awaitLeader waits until the replica leads.
func awaitLeader(t *testing.T, r *replica) {
	t.Helper()
	pgtest.Eventually(t, patience, "the replica leads", func() (bool, string) {
		return r.IsLeader(), strings.Join(r.logs.With(""), "\n")
	})
}

// awaitHolder waits until one backend holds the lock and returns it.
func awaitHolder(t *testing.T, conn *pgx.Conn) uint32 {
	t.Helper()
	var pids []uint32
	pgtest.Eventually(t, patience, "one backend holds the lock", func() (bool, string) {
		pids = holders(t, conn)
		return len(pids) == 1, fmt.Sprint(pids)
	})
	return pids[0]
}

// awaitFree waits until nobody holds the lock.
func awaitFree(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	pgtest.Eventually(t, patience, "the lock is free", func() (bool, string) {
		pids := holders(t, conn)
		return len(pids) == 0, fmt.Sprint(pids)
	})
}

// isBackend reports whether the server has that backend.
func isBackend(t *testing.T, conn *pgx.Conn, pid uint32) bool {
	t.Helper()
	var exists bool
	if err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", int32(pid)).Scan(&exists); err != nil {
		t.Fatal(err)
	}
	return exists
}

// terminate ends the backend.
func terminate(t *testing.T, admin *pgx.Conn, pid uint32) {
	t.Helper()
	if _, err := admin.Exec(t.Context(), "SELECT pg_terminate_backend($1)", int32(pid)); err != nil {
		t.Fatal(err)
	}
}

// R10, L1: when Run has returned after a cancel, the lock is free and the backend goes.
func TestPostgresCleanStopFreesLockAndBackend(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	admin := db.Connect(t)
	r := newReplica(t, db.Pool(t), quick).run(t)
	pid := awaitHolder(t, admin)
	awaitLeader(t, r)
	r.stop()
	if err := <-r.returned; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if pids := holders(t, admin); len(pids) != 0 {
		t.Errorf("backends %v hold the lock after Run has returned", pids)
	}
	r.requireStandby(t)
	pgtest.Eventually(t, patience, "the leader's backend is gone", func() (bool, string) {
		return !isBackend(t, admin, pid), fmt.Sprint(pid)
	})
}

// R4, L4: nothing that a pool does to its connections reaches the one that carries the lock.
func TestPostgresPoolNeverRetiresTheLockConnection(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	admin := db.Connect(t)
	pool := db.Pool(t, func(c *pgxpool.Config) {
		c.MaxConnLifetime, c.MaxConnIdleTime, c.HealthCheckPeriod = quick/2, quick/2, quick/8
	})
	r := newReplica(t, pool, 5*quick).run(t)
	pid := awaitHolder(t, admin)
	pgtest.Eventually(t, patience, "the pool has retired 5 connections", func() (bool, string) {
		if err := pool.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		stat := pool.Stat()
		retired := stat.MaxLifetimeDestroyCount() + stat.MaxIdleDestroyCount()
		return retired >= 5, fmt.Sprint(retired)
	})
	pool.Reset()
	if got := awaitHolder(t, admin); got != pid {
		t.Errorf("the lock moved from backend %d to %d", pid, got)
	}
	if got := r.logs.With("acquired"); len(got) != 1 {
		t.Errorf("terms: %q, want 1", got)
	}
}

// R7, R8, L7: fifty losses cost the pool nothing, and a leading elector does not keep it from closing.
func TestPostgresFiftyLossesLeaveThePoolWhole(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	admin := db.Connect(t)
	pool := db.Pool(t, func(c *pgxpool.Config) { c.MaxConns = 2 })
	r := newReplica(t, pool, quick/4).run(t)
	for range 50 {
		pid := awaitHolder(t, admin)
		awaitLeader(t, r)
		terminate(t, admin, pid)
		pgtest.Eventually(t, patience, "the replica has noticed", func() (bool, string) {
			pids := holders(t, admin)
			return len(pids) == 1 && pids[0] != pid, fmt.Sprint(pids)
		})
	}
	awaitLeader(t, r)
	if stat := pool.Stat(); stat.TotalConns() > 2 || stat.AcquiredConns() != 0 {
		t.Errorf("%d connections, %d borrowed; want at most 2 and none", stat.TotalConns(), stat.AcquiredConns())
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("a leading elector keeps its pool from closing")
	}
	r.requireLeader(t)
}

// R2, L9, L23, L24: refusals leave a pooled connection as it was; the lock connection is closed, not returned.
func TestPostgresRefusalsLeaveThePooledSessionAsItWas(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	var notices atomic.Int64
	count := func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) { notices.Add(1) }
	}
	a := newReplica(t, db.Pool(t, count), quick).run(t)
	awaitLeader(t, a)
	b := newReplica(t, db.Pool(t, count), quick).run(t)
	pgtest.Eventually(t, patience, "20 checks of the standby", func() (bool, string) {
		acquired := b.pool.Stat().AcquireCount()
		return acquired >= 20, fmt.Sprint(acquired)
	})
	if got := b.pool.Stat().NewConnsCount(); got > 1 {
		t.Errorf("the standby opened %d connections, want 1", got)
	}
	for range 3 { // three terms, each followed by a look at what the pool holds
		a.stop()
		<-a.returned
		awaitLeader(t, b)
		for _, r := range []*replica{a, b} {
			var timeout string
			if err := r.pool.QueryRow(t.Context(), "SHOW idle_session_timeout").Scan(&timeout); err != nil || timeout != "0" {
				t.Errorf("idle_session_timeout of a pooled session = %s, %v; want it unchanged", timeout, err)
			}
		}
		a, b = b, a
		b.run(t)
	}
	if got := notices.Load(); got != 0 {
		t.Errorf("the server sent %d notices, want none (L23: you don't own a lock)", got)
	}
}

// R5, L10: an elector that starts before its server leads soon after it.
func TestPostgresElectorStartsBeforeItsServer(t *testing.T) {
	t.Parallel()
	server := pgtest.Cluster(t, pgserver.Options{})
	if err := server.Stop(pgserver.Fast); err != nil {
		t.Fatal(err)
	}
	pool := (&pgtest.DB{DSN: server.DSN("postgres")}).Pool(t)
	r := newReplica(t, pool, quick).run(t)
	pgtest.Eventually(t, patience, "five warnings", func() (bool, string) {
		warnings := r.logs.With("WARN leader: acquire lock connection: ")
		return len(warnings) >= 5, strings.Join(warnings, "\n")
	})
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitLeader(t, r)
}

// R8, L41: a server that stops, fast or at once, ends the term; exactly one replica leads after it is back.
func TestPostgresRestartElectsExactlyOneAgain(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]pgserver.Mode{"fast": pgserver.Fast, "immediate": pgserver.Immediate} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.Cluster(t, pgserver.Options{})
			db := &pgtest.DB{DSN: server.DSN("postgres")}
			a, b := newReplica(t, db.Pool(t), quick).run(t), newReplica(t, db.Pool(t), quick)
			awaitLeader(t, a)
			b.run(t)
			term, cancel, _ := a.Term(context.Background())
			defer cancel()
			if err := server.Stop(mode); err != nil {
				t.Fatal(err)
			}
			<-term.Done()
			if cause := context.Cause(term); !errors.Is(cause, leader.ErrLeadershipLost) {
				t.Errorf("cause = %v, want ErrLeadershipLost", cause)
			}
			pgtest.Eventually(t, patience, "the warning with the ping error", func() (bool, string) {
				got := a.logs.With("WARN background leader lock lost")
				return len(got) == 1 && strings.Contains(got[0], "error="), strings.Join(got, "\n")
			})
			if err := server.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			awaitHolder(t, db.Connect(t))
			pgtest.Eventually(t, patience, "exactly one leads", func() (bool, string) {
				return a.IsLeader() != b.IsLeader(), fmt.Sprint(a.IsLeader(), b.IsLeader())
			})
		})
	}
}

// R7, L43: a role whose statements time out at once never strands the lock.
func TestPostgresStatementTimeoutStrandsNoLock(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	admin := db.Connect(t)
	role := db.Name + "_hasty"
	if _, err := admin.Exec(t.Context(), "CREATE ROLE "+role+" LOGIN"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(t.Context(), "ALTER ROLE "+role+" SET statement_timeout = '1ms'"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = admin.Exec(context.Background(), "DROP ROLE "+role) })
	for range 20 {
		r := newReplica(t, db.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.User = role }), quick/10).run(t)
		pgtest.Eventually(t, patience, "it led or was refused by the timeout", func() (bool, string) {
			return r.IsLeader() || len(r.logs.With("57014")) > 0, strings.Join(r.logs.With(""), "\n")
		})
		r.stop()
		<-r.returned
		awaitFree(t, admin)
		r.pool.Close()
	}
}

// R3: another use of the pool that left the lock on a session is no leadership, and is cleared away.
func TestPostgresGhostLockIsNoLeadership(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	pool := db.Pool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	var granted bool
	if err := pool.QueryRow(t.Context(), "SELECT pg_try_advisory_lock(1886156915, 1)").Scan(&granted); err != nil || !granted {
		t.Fatalf("lock: %v, %v", granted, err)
	}
	ghost := awaitHolder(t, db.Connect(t))
	r := newReplica(t, pool, quick).run(t)
	awaitLeader(t, r)
	if got := r.logs.With(fmt.Sprintf("session %d already held lock 1886156915/1", ghost)); len(got) != 1 {
		t.Errorf("log: %q", r.logs.With(""))
	}
	if got := awaitHolder(t, db.Connect(t)); got == ghost {
		t.Error("the ghost's session leads")
	}
}

// R2: the leader's key shares nothing with bigint keys, transaction locks of them, or other databases.
func TestPostgresOtherLocksDoNotGetInTheWay(t *testing.T) {
	t.Parallel()
	db, other := pgtest.Database(t), pgtest.Database(t)
	admin := db.Connect(t)
	if _, err := admin.Exec(t.Context(), "SELECT pg_advisory_lock((1886156915::bigint << 32) | 1)"); err != nil {
		t.Fatal(err)
	}
	a, b := newReplica(t, db.Pool(t), quick).run(t), newReplica(t, other.Pool(t), quick).run(t)
	awaitLeader(t, a)
	awaitLeader(t, b)
}

// R2: a database whose client_encoding is not UTF8 elects a leader too; pgx takes no simple-protocol parameters there.
func TestPostgresElectsInASQLASCIIDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	name := db.Name + "_ascii"
	if err := db.Server.Exec(t.Context(), "postgres", "CREATE DATABASE "+name+" ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Server.Exec(context.Background(), "postgres", "DROP DATABASE "+name+" WITH (FORCE)") })
	r := newReplica(t, (&pgtest.DB{DSN: db.Server.DSN(name)}).Pool(t), quick).run(t)
	awaitLeader(t, r)
	r.stop()
	<-r.returned
	if got := r.logs.With("INFO background leader lock released"); len(got) != 1 {
		t.Errorf("log: %q", r.logs.With(""))
	}
}

// R17: a hot standby grants advisory locks of its own; a replica on it never leads, and after a promotion it does.
func TestPostgresHotStandbyElectsNobodyUntilPromoted(t *testing.T) {
	t.Parallel()
	server := pgtest.Cluster(t, pgserver.Options{Standby: true})
	r := newReplica(t, (&pgtest.DB{DSN: server.DSN("postgres")}).Pool(t), quick).run(t)
	pgtest.Eventually(t, patience, "three warnings", func() (bool, string) {
		warnings := r.logs.With("WARN leader: acquire lock connection: the server is in recovery")
		return len(warnings) >= 3, strings.Join(r.logs.With(""), "\n")
	})
	r.requireStandby(t)
	if err := server.Exec(t.Context(), "postgres", "SELECT pg_promote()"); err != nil {
		t.Fatal(err)
	}
	awaitLeader(t, r)
}
