package leader_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/internal/child"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/internal/syncbuf"
)

// clockBehind returns the command that runs a program in a time namespace whose monotonic clock and time since boot are behind.
func clockBehind(t *testing.T) (command []string, behind int) {
	t.Helper()
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	var seconds float64
	if _, err := fmt.Sscan(string(uptime), &seconds); err != nil {
		t.Fatalf("/proc/uptime: %q: %v", uptime, err)
	}
	behind = min(1000, int(seconds/2)) // a clock must not stand below zero
	offset := fmt.Sprint(-behind)
	command = []string{"unshare", "--time", "--monotonic", offset, "--boottime", offset}
	if os.Geteuid() != 0 {
		command = append(command, "--map-root-user")
	}
	return command, behind
}

// startBehind starts a replica whose clock is behind and returns it with what it logs.
func startBehind(t *testing.T, o order) (*child.Child, *syncbuf.Buffer) {
	t.Helper()
	unshare, behind := clockBehind(t)
	log := &syncbuf.Buffer{}
	cmd := o.command(t, unshare...)
	cmd.Stderr = log
	const needs = "this test needs unshare of util-linux and the right to make a time namespace: Linux 5.6 or newer, and root with " +
		"CAP_SYS_ADMIN or unprivileged user namespaces"
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatalf("%v: %s", err, needs)
	}
	t.Cleanup(func() { _ = process.Stop(t.Context(), syscall.SIGKILL) })
	own, err := os.Readlink("/proc/self/ns/time")
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, patience, "the replica runs in a time namespace of its own", func() (bool, string) {
		select {
		case <-process.Done():
			t.Fatalf("%v ended: %v\n%s\n%s", unshare, process.Err(), log, needs)
		default:
		}
		namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/time", process.PID()))
		offsets, _ := os.ReadFile(fmt.Sprintf("/proc/%d/timens_offsets", process.PID()))
		fields := strings.Fields(string(offsets))
		return err == nil && namespace != own && len(fields) > 1 && fields[1] == fmt.Sprint(-behind),
			fmt.Sprintf("%s, %s, %q, %v\n%s", own, namespace, offsets, err, log)
	})
	return process, log
}

// R1, R10, R21: a replica whose clock is behind by a quarter of an hour, as that of a machine which booted later, leads, keeps
// its term, and hands over cleanly; and it takes over as cleanly from one whose clock is ahead.
func TestFaultClockBehindLeadsAsAnyOther(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	admin := db.Connect(t)
	o := order{Name: "behind", DSN: db.DSN, CheckInterval: slowCheck, Cooldown: slowCheck, WorkEvery: time.Hour}
	first, firstLog := startBehind(t, o)
	pid := awaitHolder(t, admin)
	r := newReplica(t, db.Pool(t), slowCheck).run(t)
	awaitVerified(t, admin, pid, 10)
	r.requireStandby(t)
	stopBehind(t, first, firstLog)
	awaitLeader(t, r)
	second, secondLog := startBehind(t, o)
	r.stop()
	<-r.returned
	awaitVerified(t, admin, awaitHolder(t, admin), 2)
	stopBehind(t, second, secondLog)
	awaitFree(t, admin)
}

// stopBehind stops the leading replica and fails unless its log is that of one term.
func stopBehind(t *testing.T, process *child.Child, log *syncbuf.Buffer) {
	t.Helper()
	if err := process.Stop(t.Context(), syscall.SIGTERM); err != nil || process.Err() != nil {
		t.Errorf("stop: %v, %v", err, process.Err())
	}
	for line, want := range map[string]int{
		"background leader lock acquired": 1, "background leader lock released": 1, "background leader lock lost": 0,
	} {
		if got := strings.Count(log.String(), line); got != want {
			t.Errorf("%d lines %q, want %d:\n%s", got, line, want, log)
		}
	}
}
