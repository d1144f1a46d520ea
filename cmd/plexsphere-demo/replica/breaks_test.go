package replica_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/cmd/plexsphere-demo/replica"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// T5, T6, L29: a loop that fails, panics, calls runtime.Goexit, or hangs shows by line, probe and metric, and disturbs no other loop.
func TestBrokenLoopShowsAndDisturbsNoOther(t *testing.T) {
	t.Parallel()
	const (
		loop   = "actions-timeout"
		prefix = `plexsphere: background loop "actions-timeout": tick panicked: `
	)
	for way, tc := range map[replica.Break]struct {
		probe, line, result string
	}{
		replica.BreakError:  {"broken on purpose", `level=WARN msg="background loop tick failed" loop=actions-timeout error="broken on purpose"`, "error"},
		replica.BreakPanic:  {prefix + "broken on purpose", `level=ERROR msg="background loop tick panicked" loop=actions-timeout panic="broken on purpose" stack="goroutine `, "panic"},
		replica.BreakGoexit: {prefix + "runtime.Goexit was called", `level=ERROR msg="background loop tick panicked" loop=actions-timeout panic="runtime.Goexit was called" stack="goroutine `, "panic"},
		replica.BreakHang:   {"", "", ""},
	} {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			r := start(t, pgtest.Database(t).DSN, func(o *replica.Options) { o.Breaks = map[string]replica.Break{loop: way} })
			r.awaitLeader(t)
			if way == replica.BreakHang {
				r.await(t, "the pass hangs", func() bool { return r.value(t, "plexsphere_background_loop_running", loop) == 1 })
			} else {
				r.await(t, "two ticks fail", func() bool {
					return r.value(t, "plexsphere_background_loop_ticks_total", loop, tc.result) >= 2
				})
				if !strings.Contains(r.log.String(), tc.line) {
					t.Errorf("log without %s:\n%s", tc.line, r.log)
				}
			}
			_, answer := r.readiness(t)
			if got := answer.Probes[loop]; got.Error != tc.probe || got.OK != (tc.probe == "") {
				t.Errorf("probe %v, want %q", got, tc.probe)
			}
			before := r.value(t, "plexsphere_background_loop_ticks_total", "approvals-expire", "ok")
			r.await(t, "another loop ticks on", func() bool {
				return r.value(t, "plexsphere_background_loop_ticks_total", "approvals-expire", "ok") >= before+3
			})
			if r.value(t, "plexsphere_background_loop_last_success_timestamp_seconds", loop) != -1 {
				t.Error("a broken loop has a last success")
			}
			r.stop()
			if err := <-r.returned; err != nil {
				t.Errorf("Run = %v", err)
			}
		})
	}
}

// W4, L37: a loop that exhausts its budget is named by the probe workers and by metrics, while others tick on; asked to, the
// replica then hands the lock over.
func TestExhaustedLoopIsNamedAndHandsOver(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	const loop = "sse-relay"
	first := start(t, db.DSN, func(o *replica.Options) {
		o.Breaks, o.StepDownExhausted = map[string]replica.Break{loop: replica.BreakExit}, true
		o.MinBackoff = checkInterval / 4
	})
	first.await(t, "it leads", func() bool { return first.value(t, "plexsphere_background_leader") == 1 })
	second := start(t, db.DSN, func(o *replica.Options) { o.Name = "second" })
	first.await(t, "the worker is exhausted", func() bool {
		status, answer := first.readiness(t)
		return status == http.StatusServiceUnavailable &&
			answer.Probes["workers"].Error == `worker "sse-relay" has exhausted its budget of 3 restarts within 10m0s: broken on purpose`
	})
	if up, restarts := first.value(t, "plexsphere_worker_up", loop), first.value(t, "plexsphere_worker_restarts_total", loop); up != 0 || restarts != 3 {
		t.Errorf("up %v, restarts %v; want 0 and 3", up, restarts)
	}
	if exhausted := first.value(t, "plexsphere_worker_exhausted", loop); exhausted != 1 {
		t.Errorf("exhausted %v, want 1", exhausted)
	}
	if line := `level=ERROR msg="background worker exhausted its restart budget" worker=sse-relay error="broken on purpose" restarts=3`; !strings.Contains(first.log.String(), line) {
		t.Errorf("log without %s:\n%s", line, first.log)
	}
	second.awaitLeader(t)
	if first.value(t, "plexsphere_background_leader") != 0 || !strings.Contains(first.log.String(), `because="worker sse-relay is exhausted"`) {
		t.Errorf("the first replica leads: %v; log:\n%s", first.value(t, "plexsphere_background_leader"), first.log)
	}
	if first.value(t, "plexsphere_worker_up", "approvals-expire") != 1 {
		t.Error("another worker went down with it")
	}
}

// T11: of a crossing that every replica samples, the leader alone writes the audit row.
func TestGatedStepIsTheLeadersAlone(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	leader := start(t, db.DSN, func(o *replica.Options) { o.Name, o.CheckInterval = "leader", 20*time.Second })
	leader.awaitLeader(t)
	standby := start(t, db.DSN, func(o *replica.Options) { o.Name = "standby" })
	standby.await(t, "it samples", func() bool { return standby.value(t, "plexsphere_worker_up", "capacity-collector") == 1 })
	admin := db.Connect(t)
	for crossings, used := range []int{90, 50, 95} {
		if _, err := admin.Exec(t.Context(), "UPDATE capacity SET used_percent = $1", used); err != nil {
			t.Fatal(err)
		}
		leader.await(t, "the crossing is recorded", func() bool {
			var total, byLeader int
			if err := admin.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE replica = 'leader')
				FROM passes WHERE pass = 'capacity-collector' AND (SELECT count(*) FROM capacity_crossings) > 0`).
				Scan(&total, &byLeader); err != nil || total != byLeader || total > crossings+1 {
				t.Fatalf("%d crossings, %d by the leader, %v", total, byLeader, err)
			}
			return total == crossings+1
		})
	}
}
