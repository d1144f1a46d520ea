package leader_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// exhaust borrows every connection that the pool allows, and returns what gives them back.
func exhaust(t *testing.T, pool *pgxpool.Pool) (release func()) {
	t.Helper()
	var taken []*pgxpool.Conn
	for range pool.Config().MaxConns {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		conn, err := pool.Acquire(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, conn)
	}
	release = func() {
		for _, conn := range taken {
			conn.Release()
		}
		taken = nil
	}
	t.Cleanup(release) // the pool could not be closed otherwise
	return release
}

// requirePaced fails when the replica has warned far more often than once in a slowCheck, none of it before begin. A check that
// was late is followed by the next at once.
func requirePaced(t *testing.T, r *replica, begin time.Time) {
	t.Helper()
	warnings := len(r.logs.With("WARN leader: acquire lock connection: "))
	if most := 2*int(time.Since(begin)/slowCheck) + 2; warnings > most {
		t.Errorf("%d warnings in %v, want at most %d", warnings, time.Since(begin), most)
	}
}

// R5, R6: a standby whose pool is exhausted by other work warns at each check, takes no lock, and leads once one connection
// comes back.
func TestFaultExhaustedPoolOfAStandby(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	admin := db.Connect(t)
	pool := db.Pool(t, func(c *pgxpool.Config) { c.MaxConns = 2 })
	release := exhaust(t, pool)
	begin := time.Now()
	r := newReplica(t, pool, slowCheck).run(t)
	const noAnswer = "WARN leader: acquire lock connection: no answer within one check interval"
	pgtest.Eventually(t, patience, "five warnings", func() (bool, string) {
		if pids := holders(t, admin); len(pids) != 0 || r.IsLeader() {
			t.Fatalf("backends %v hold the lock, IsLeader %v", pids, r.IsLeader())
		}
		return len(r.logs.With(noAnswer)) >= 5, strings.Join(r.logs.With(""), "\n")
	})
	requirePaced(t, r, begin)
	release()
	awaitLeader(t, r)
	if failed, warned := r.pool.Stat().CanceledAcquireCount(), len(r.logs.With(noAnswer)); int64(warned) != failed {
		t.Errorf("%d warnings for %d failed checks", warned, failed)
	}
}

// R4, R5, R8: a leader does not notice that its pool is exhausted, since its checks use its own connection. When it loses the
// lock it warns at each check, and leads again once a connection comes back.
func TestFaultExhaustedPoolOfALeader(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	admin := db.Connect(t)
	r := newReplica(t, db.Pool(t, func(c *pgxpool.Config) { c.MaxConns = 2 }), slowCheck).run(t)
	awaitLeader(t, r)
	pid := awaitHolder(t, admin)
	release := exhaust(t, r.pool)
	awaitVerified(t, admin, pid, 5)
	r.requireLeader(t)
	if got := r.logs.With("background leader lock"); len(got) != 1 {
		t.Errorf("log of an undisturbed leader: %q", r.logs.With(""))
	}
	terminate(t, admin, pid)
	pgtest.Eventually(t, patience, "the loss and three warnings", func() (bool, string) {
		lost, warned := r.logs.With("WARN background leader lock lost"), r.logs.With("no answer within one check interval")
		return len(lost) == 1 && len(warned) >= 3, strings.Join(r.logs.With(""), "\n")
	})
	r.requireStandby(t)
	release()
	awaitLeader(t, r)
}

// R4, R5, R8, L7: a leader whose pool is closed goes on leading. When it loses the lock then, it warns at each check, another
// replica leads, and Run goes on until it is stopped.
func TestFaultClosedPoolOfALeader(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	admin := db.Connect(t)
	a := newReplica(t, db.Pool(t), slowCheck).run(t)
	awaitLeader(t, a)
	pid := awaitHolder(t, admin)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		a.pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("a leading elector keeps its pool from closing")
	}
	awaitVerified(t, admin, pid, 5)
	a.requireLeader(t)
	b := newReplica(t, db.Pool(t), slowCheck).run(t)
	terminate(t, admin, pid)
	begin := time.Now()
	pgtest.Eventually(t, patience, "the loss and five warnings", func() (bool, string) {
		lost, warned := a.logs.With("WARN background leader lock lost"), a.logs.With("WARN leader: acquire lock connection: closed pool")
		return len(lost) == 1 && len(warned) >= 5, strings.Join(a.logs.With(""), "\n")
	})
	requirePaced(t, a, begin)
	awaitLeader(t, b)
	a.requireStandby(t)
	select {
	case err := <-a.returned:
		t.Fatalf("Run returned %v on a closed pool", err)
	default:
	}
	a.stop()
	if err := <-a.returned; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if got := awaitHolder(t, admin); got == pid || !b.IsLeader() {
		t.Error(fmt.Sprint("backend ", got, " holds the lock, the second replica leads: ", b.IsLeader()))
	}
}
