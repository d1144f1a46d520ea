package leadertest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/leader/leadertest"
	"github.com/plexsphere/leader-exporter/lockkey"
)

const (
	takeLock   = "SELECT pg_try_advisory_lock(1886156915, 1)"
	returnLock = "SELECT pg_advisory_unlock(1886156915, 1)"
)

// askFor runs one statement on the connection and returns its value.
func askFor(t *testing.T, conn *pgxpool.Conn, statement string) string {
	t.Helper()
	var value string
	if err := conn.QueryRow(t.Context(), statement).Scan(&value); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return value
}

// borrow takes a connection out of a new pool of the client.
func borrow(t *testing.T, client *leadertest.Client) *pgxpool.Conn {
	t.Helper()
	conn, err := client.Pool(t).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Release)
	return conn
}

func TestServerCountsLocksAsPostgreSQLDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := leadertest.NewServer(t)
		a, b := borrow(t, server.Client("a")), borrow(t, server.Client("b"))
		for i, step := range []struct {
			conn            *pgxpool.Conn
			statement, want string
		}{
			{a, takeLock, "t"},
			{a, takeLock, "t"},
			{b, takeLock, "f"},
			{a, returnLock, "t"},
			{b, takeLock, "f"},
			{a, returnLock, "t"},
			{a, returnLock, "f"},
			{b, takeLock, "t"},
		} {
			if got := askFor(t, step.conn, step.statement); got != step.want {
				t.Errorf("step %d: %s = %s, want %s", i, step.statement, got, step.want)
			}
		}
		if client, pid, held := server.Holder(lockkey.BackgroundLeader()); client != "b" || pid != b.Conn().PgConn().PID() || !held {
			t.Errorf("Holder = %s, %d, %v; want b's backend", client, pid, held)
		}
	})
}

func TestTerminatedSessionFreesItsLocksAndTellsWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := leadertest.NewServer(t)
		a := borrow(t, server.Client("a"))
		askFor(t, a, takeLock)
		pid := a.Conn().PgConn().PID()
		if !server.Terminate(pid) || server.Terminate(pid) {
			t.Error("Terminate: want true once, then false")
		}
		if _, _, held := server.Holder(lockkey.BackgroundLeader()); held {
			t.Error("the lock outlived its session")
		}
		_, err := a.Exec(t.Context(), "SELECT 1")
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "57P01" {
			t.Errorf("statement on a terminated session: %v; want SQLSTATE 57P01", err)
		}
	})
}

func TestCutNetworkSwallowsStatementsAndGoodbyes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := leadertest.NewServer(t)
		client := server.Client("a")
		a := borrow(t, client)
		askFor(t, a, takeLock)
		client.Cut()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Exec(ctx, "SELECT 1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("statement over a cut network: %v; want a timeout", err)
		}
		_ = a.Conn().PgConn().Conn().Close()
		time.Sleep(time.Hour)
		if _, _, held := server.Holder(lockkey.BackgroundLeader()); !held {
			t.Error("the server learned over a cut network that its client is gone")
		}
		client.Heal()
		<-a.Conn().PgConn().CleanupDone()
		synctest.Wait()
		if _, _, held := server.Holder(lockkey.BackgroundLeader()); held {
			t.Error("the healed network did not bring the news")
		}
	})
}

func TestDelayHoldsBackRepliesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := leadertest.NewServer(t)
		client := server.Client("a")
		a := borrow(t, client)
		client.Delay(3 * time.Second)
		begin := time.Now()
		go func() {
			time.Sleep(time.Second)
			if _, _, held := server.Holder(lockkey.BackgroundLeader()); !held {
				t.Error("the statement itself was held back")
			}
		}()
		askFor(t, a, takeLock)
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("reply after %v, want 3s", took)
		}
	})
}

func TestStoppedServerRefusesUntilStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := leadertest.NewServer(t)
		pool := server.Client("a").Pool(t)
		server.Stop()
		if err := pool.Ping(t.Context()); err == nil {
			t.Error("Ping of a stopped server: no error")
		}
		server.Start()
		if err := pool.Ping(t.Context()); err != nil {
			t.Errorf("Ping after Start: %v", err)
		}
		if got := server.Sessions(); got != 1 {
			t.Errorf("Sessions = %d, want 1", got)
		}
	})
}

func TestScriptedAndUnknownStatements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := leadertest.NewServer(t)
		server.Script("SELECT due FROM work", "7")
		a := borrow(t, server.Client("a"))
		if got := askFor(t, a, "SELECT due FROM work"); got != "7" {
			t.Errorf("scripted statement = %s, want 7", got)
		}
		var pgErr *pgconn.PgError
		if _, err := a.Exec(t.Context(), "DROP TABLE work"); !errors.As(err, &pgErr) || pgErr.Code != "0A000" {
			t.Errorf("unknown statement: %v; want SQLSTATE 0A000", err)
		}
		statements := server.Statements()
		if last := statements[len(statements)-1]; last.SQL != "DROP TABLE work" || last.Client != "a" {
			t.Errorf("last statement = %+v", last)
		}
	})
}

func TestExampleHoldsWhatItShows(t *testing.T) { workFollowsTheLeader(t) }
