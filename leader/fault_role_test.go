package leader_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// plainRole makes a role that is no superuser, with its own settings, and returns what logs a pool in as it.
func plainRole(t *testing.T, db *pgtest.DB, settings ...string) func(*pgxpool.Config) {
	t.Helper()
	role := db.Name + "_plain"
	run := func(ctx context.Context, sql string) error { return db.Server.Exec(ctx, "postgres", sql) }
	if err := run(t.Context(), "CREATE ROLE "+role+" LOGIN"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run(context.Background(), "DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	for _, setting := range settings {
		if err := run(t.Context(), "ALTER ROLE "+role+" SET "+setting); err != nil {
			t.Fatal(err)
		}
	}
	return func(c *pgxpool.Config) { c.ConnConfig.User = role }
}

// overloads returns the functions of that name, which differ from one version of PostgreSQL to another.
func overloads(t *testing.T, admin *pgx.Conn, name string) []string {
	t.Helper()
	rows, err := admin.Query(t.Context(), "SELECT oid::regprocedure::text FROM pg_proc WHERE proname = $1", name)
	if err != nil {
		t.Fatal(err)
	}
	functions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(functions) == 0 {
		t.Fatalf("functions named %s: %v, %v", name, functions, err)
	}
	return functions
}

// alter runs a statement about the function, for each that it is.
func alter(t *testing.T, admin *pgx.Conn, statement string, functions []string) {
	t.Helper()
	for _, function := range functions {
		if _, err := admin.Exec(t.Context(), fmt.Sprintf(statement, function)); err != nil {
			t.Fatal(err)
		}
	}
}

// R5, R7, R8: a function of the lock statement that the role may not call elects nobody new and leaves no lock behind. Every
// check warns with the server's words, the replica that leads goes on, and the right's return elects again.
func TestFaultRevokedFunctionElectsNobodyNew(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pg_try_advisory_lock", "pg_logical_emit_message"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.Database(t) // grants on functions are the database's own
			admin := db.Connect(t)
			plain := plainRole(t, db)
			functions := overloads(t, admin, name)
			a := newReplica(t, db.Pool(t, plain), 2*slowCheck).run(t) // it is to keep its term on a busy machine too
			awaitLeader(t, a)
			pid := awaitHolder(t, admin)
			alter(t, admin, "REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC", functions)
			b := newReplica(t, db.Pool(t, plain), slowCheck).run(t)
			awaitDenied(t, admin, b, name, pid)
			awaitVerified(t, admin, pid, 3)
			a.requireLeader(t)
			a.stop()
			<-a.returned
			if got := a.logs.With("INFO background leader lock released"); len(got) != 1 {
				t.Errorf("log: %q", a.logs.With(""))
			}
			awaitDenied(t, admin, b, name)
			b.requireStandby(t)
			alter(t, admin, "GRANT EXECUTE ON FUNCTION %s TO PUBLIC", functions)
			awaitLeader(t, b)
		})
	}
}

// awaitDenied waits for three checks of the replica, each of which warns that it may not call the function. Meanwhile nobody but
// the given backends may hold the lock.
func awaitDenied(t *testing.T, admin *pgx.Conn, r *replica, function string, holding ...uint32) {
	t.Helper()
	const checks = 3
	denied := func() int {
		return len(r.logs.With("WARN leader: acquire lock connection: ERROR: permission denied for function " + function + " (SQLSTATE 42501)"))
	}
	before := denied()
	pgtest.Eventually(t, patience, fmt.Sprint(checks, " denials"), func() (bool, string) {
		if pids := holders(t, admin); !slices.Equal(pids, holding) {
			t.Fatalf("backends %v hold the lock, want %v", pids, holding)
		}
		return denied() >= before+checks, strings.Join(r.logs.With(""), "\n")
	})
	attempts := r.pool.Stat().AcquireCount()
	if warned := len(r.logs.With("WARN leader: acquire lock connection: ")); int64(warned) < attempts-1 { // the last is under way
		t.Errorf("%d warnings in %d attempts", warned, attempts)
	}
}

// R1, R2, R5, R9, R22, L43: settings of the role that are hostile to an election do not stop it: the leader keeps its term, the
// standby goes on and follows.
func TestFaultSettingsOfTheRoleStopNoElection(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{
		"lock timeout":    {"lock_timeout = '1ms'"},
		"idle session":    {"idle_session_timeout = '250ms'"}, // between two checks of the standby
		"idle in session": {"idle_in_transaction_session_timeout = '1ms'"},
		"read only":       {"default_transaction_read_only = on"},
		"deferrable": {
			"default_transaction_read_only = on", "default_transaction_deferrable = on", "default_transaction_isolation = 'serializable'",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.Database(t)
			admin := db.Connect(t)
			plain := plainRole(t, db, settings...)
			a := newReplica(t, db.Pool(t, plain), 2*slowCheck).run(t) // it is to keep its term on a busy machine too
			awaitLeader(t, a)
			pid := awaitHolder(t, admin)
			b := newReplica(t, db.Pool(t, plain), slowCheck).run(t)
			awaitChecks(t, b, 5)
			awaitVerified(t, admin, pid, 3)
			a.requireLeader(t)
			b.requireStandby(t)
			if got := a.logs.With("background leader lock"); len(got) != 1 {
				t.Errorf("log of the leader: %q, want one term", a.logs.With(""))
			}
			// Only this setting disturbs the standby, between checks, and it asks on a new session within the next one (R5).
			if renewed := b.pool.Stat().NewConnsCount() > 1; renewed != strings.HasPrefix(settings[0], "idle_session") || len(b.logs.With("SQLSTATE")) > 0 {
				t.Errorf("%d connections of the standby; log: %q", b.pool.Stat().NewConnsCount(), b.logs.With(""))
			}
			a.stop()
			<-a.returned
			if slices.Contains(holders(t, admin), pid) {
				t.Errorf("backend %d holds the lock after Run has returned", pid)
			}
			awaitLeader(t, b)
			if _, ok := b.Fence(); !ok {
				t.Error("the leader has no fence")
			}
			b.stop()
			<-b.returned
			awaitFree(t, admin)
		})
	}
}
