package leader_test

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/internal/child"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

func TestMain(m *testing.M) {
	if order := os.Getenv(recordedReplica); order != "" {
		if err := runRecorded(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	pgtest.Main(m)
}

// startProcess starts a replica as a process of its own.
func startProcess(t *testing.T, dsn string) *child.Child {
	t.Helper()
	cmd := order{Name: "process", DSN: dsn, CheckInterval: quick, WorkEvery: time.Hour}.command(t)
	cmd.Stderr = t.Output()
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Signal(syscall.SIGCONT)
		_ = process.Stop(context.Background(), syscall.SIGKILL)
	})
	return process
}

// R9, L11: a leader that is stopped in its tracks keeps its socket open and says nothing. The server itself ends its
// session, another replica leads, and the resumed process is no leader.
func TestPostgresStoppedLeaderProcessIsReplaced(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	admin := db.Connect(t)
	process := startProcess(t, db.DSN)
	stopped := awaitHolder(t, admin)
	r := newReplica(t, db.Pool(t), quick).run(t)
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitLeader(t, r)
	if isBackend(t, admin, stopped) {
		t.Errorf("backend %d of the stopped process is still there", stopped)
	}
	pid := awaitHolder(t, admin)
	if err := process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, patience, "the resumed process is a standby that asks again", func() (bool, string) {
		var asked int
		err := admin.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE query LIKE '%pg_try_advisory_lock%' AND state = 'idle' AND pid <> $1 AND datname = current_database()`, int32(pid)).Scan(&asked)
		return asked >= 1, fmt.Sprint(asked, err)
	})
	if got := awaitHolder(t, admin); got != pid {
		t.Errorf("the lock moved from backend %d to %d when the stopped process resumed", pid, got)
	}
	r.requireLeader(t)
}

// R8: a killed leader's socket closes, so that the next check of a standby finds the lock free.
func TestPostgresKilledLeaderProcessIsReplaced(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	process := startProcess(t, db.DSN)
	awaitHolder(t, db.Connect(t))
	r := newReplica(t, db.Pool(t), quick).run(t)
	if err := process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitLeader(t, r)
}
