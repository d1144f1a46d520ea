package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/internal/demotest"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

const patience = 90 * time.Second

// demo is a running plexsphere-demo.
type demo struct{ *demotest.Demo }

// startDemo starts up with the flags.
func startDemo(t *testing.T, flags ...string) *demo {
	t.Helper()
	return &demo{demotest.Start(t, flags...)}
}

// await waits until the demo has printed what the pattern matches, and returns the first match.
func (d *demo) await(t *testing.T, pattern string) []string {
	t.Helper()
	return d.Await(t, patience, pattern, 1)[0]
}

// exitCode waits for the demo's end.
func (d *demo) exitCode(t *testing.T) int {
	t.Helper()
	err := d.Cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return d.Cmd.ProcessState.ExitCode()
}

// requireNothingLeft fails when a process or a file of the demo is still there.
func (d *demo) requireNothingLeft(t *testing.T) {
	t.Helper()
	files, err := os.ReadDir(d.Folder)
	if err != nil || len(files) > 0 {
		t.Errorf("the demo left %v, %v", files, err)
	}
	pgtest.Eventually(t, patience, "all processes have gone", func() (bool, string) {
		left := d.processes(t)
		return len(left) == 0, strings.Join(left, "\n")
	})
}

// processes returns the command lines of processes that carry the demo's TMPDIR.
func (d *demo) processes(t *testing.T) []string {
	t.Helper()
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range environments {
		environment, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(environment, []byte("TMPDIR="+d.Folder)) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if len(line) > 0 { // a zombie has none
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// The demo shows what it promises: the exporter and exactly one replica agree, a killed leader is followed by another, and
// Ctrl-C leaves nothing behind.
func TestUpShowsOneLeaderAndHandovers(t *testing.T) {
	d := startDemo(t, "--check-interval=300ms", "--kill-leader-every=3s")
	exporter := d.await(t, `exporter +http://(\S+)/metrics`)[1]
	d.await(t, `Prometheus +http://(\S+)/`)
	d.await(t, `Alertmanager +http://(\S+)/`)
	d.await(t, `Ctrl-C stops everything`)
	var replicas []string
	for _, match := range regexp.MustCompile(`plexsphere-\d +http://(\S+)/metrics`).FindAllStringSubmatch(d.Out.String(), -1) {
		replicas = append(replicas, match[1])
	}
	if len(replicas) != 3 {
		t.Fatalf("%d replicas are printed, want 3:\n%s", len(replicas), d.Out)
	}
	pgtest.Eventually(t, patience, "the exporter tells of the lock and exactly one replica claims it", func() (bool, string) {
		page, err := fetch(context.Background(), "http://"+exporter+"/metrics")
		claims := 0
		for _, address := range replicas {
			families, err := scrape(context.Background(), address)
			if err == nil && gauge(families["plexsphere_background_leader"]) == 1 {
				claims++
			}
		}
		held := regexp.MustCompile(`leader_lock_held{.*} 1\n`).MatchString(page)
		return err == nil && held && claims == 1, page
	})
	d.await(t, `killing plexsphere-\d \(process \d+\), which leads`)
	d.await(t, `; handed over in `)
	if len(d.processes(t)) < 7 {
		t.Errorf("processes of a running demo: %q; this test does not see them", d.processes(t))
	}
	if err := d.Cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := d.exitCode(t); code != exitOK {
		t.Errorf("exit code %d after Ctrl-C, want 0:\n%s", code, d.Out)
	}
	d.requireNothingLeft(t)
}

// --duration ends by itself, with a verdict.
func TestUpEndsAfterItsDuration(t *testing.T) {
	d := startDemo(t, "--replicas=2", "--check-interval=300ms", "--duration=2s", "--kill-leader-every=700ms")
	if code := d.exitCode(t); code != exitOK {
		t.Errorf("exit code %d, want 0:\n%s", code, d.Out)
	}
	d.await(t, `at the end plexsphere-\d leads; \d changes of the leader seen, [1-9] replicas killed`)
	d.await(t, `[1-9]\d* rows fell due, each was handled once and in time; [1-9]\d* passes of the leader's loops, in [1-9]\d* terms, all on the replica that led`)
	d.requireNothingLeft(t)
}

// A lock that somebody else holds is no leader of this demo: the verdict is 1.
func TestUpFailsWhenNoReplicaLeadsAtTheEnd(t *testing.T) {
	d := startDemo(t, "--check-interval=300ms", "--duration=3s")
	database := d.await(t, `PostgreSQL +(postgres://\S+)`)[1]
	steal := exec.Command("psql", "-X", "-q", database,
		"-c", `DO $$ BEGIN LOOP
			PERFORM pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid();
			EXIT WHEN pg_try_advisory_lock(1886156915, 1);
		END LOOP; END $$`, "-c", "SELECT pg_sleep(600)")
	if err := steal.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = steal.Process.Kill()
		_ = steal.Wait()
	})
	if code := d.exitCode(t); code != exitBroken {
		t.Errorf("exit code %d, want 1:\n%s", code, d.Out)
	}
	d.await(t, `at the end there is not exactly one leader: no replica claims to lead, pg_locks shows psql`)
	d.requireNothingLeft(t)
}

func TestMistakesAreNamed(t *testing.T) {
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"up", "--replicas=0"}, exitUsage, "--replicas=0: want 1 to 50"},
		{[]string{"up", "--check-interval=1ms"}, exitUsage, "--check-interval=1ms: want at least 50ms"},
		{[]string{"up", "--duration=-1s"}, exitUsage, "--duration: want 0s or more"},
		{[]string{"up", "--exporter=/bin/true", "--prometheus=/no/such/prometheus"}, exitBroken, "--prometheus=/no/such/prometheus: "},
		{[]string{"up", "--exporter=/bin/true", "--prometheus=/bin/true", "--alertmanager=/no/such/am"}, exitBroken, "--alertmanager=/no/such/am: "},
		{[]string{"up"}, exitBroken, "--exporter: "},
		{[]string{"up", "--check-interval=2h"}, exitUsage, "--check-interval=2h0m0s: alerts: CheckInterval: "},
		{[]string{"down"}, exitUsage, "unexpected down"},
		{[]string{"up", "--loop-interval=1ms"}, exitUsage, "--loop-interval=1ms: want at least 50ms"},
		{[]string{"replica", "--loop-interval=0s"}, exitUsage, "--loop-interval=0s: want at least 1ms"},
		{[]string{"replica", "--worker-restarts=-1"}, exitUsage, "--worker-restarts=-1: want 0 or more"},
		{[]string{"replica", "--cooldown=-1s"}, exitUsage, "--cooldown: want 0s or more"},
		{[]string{"replica", "--break=sse-relay=sometimes"}, exitUsage, `--break=sse-relay="sometimes": want error, panic, goexit, hang, or exit`},
	} {
		t.Setenv("PLEXSPHERE_DSN", "")
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), tc.args, &stdout, &stderr); code != tc.code || !strings.Contains(stderr.String(), tc.want) {
			t.Errorf("%q: exit code %d, stderr %q; want %d and %q", tc.args, code, stderr.String(), tc.code, tc.want)
		}
	}
	t.Setenv("PLEXSPHERE_DSN", "host=h password = secr3t port=abc")
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"replica"}, &stdout, &stderr); code != exitBroken || strings.Contains(stderr.String(), "cr3t") {
		t.Errorf("malformed DSN: exit code %d, stderr %q", code, stderr.String())
	}
}
