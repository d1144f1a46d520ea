package collector_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/plexsphere/leader-exporter/collector"
	"github.com/plexsphere/leader-exporter/internal/golden"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// fixed is a Source that always tells the same.
type fixed lockwatch.Snapshot

func (f fixed) Snapshot() lockwatch.Snapshot { return lockwatch.Snapshot(f) }

// moment is when everything in these tests happened.
func moment() time.Time { return time.Date(2026, 12, 2, 3, 4, 5, 250_000_000, time.UTC) }

// led is a target whose last poll saw a leader.
func led() lockwatch.Snapshot {
	return lockwatch.Snapshot{
		Up: true, At: time.Now(), Interval: time.Second, ServerLocks: 12, LastSuccess: moment(),
		Failures: map[lockwatch.Reason]uint64{
			lockwatch.ReasonConnect: 2, lockwatch.ReasonAuth: 0, lockwatch.ReasonTimeout: 1, lockwatch.ReasonPermission: 0, lockwatch.ReasonQuery: 0,
		},
		PollDuration: lockwatch.Histogram{Count: 9, Sum: 0.5, Buckets: map[float64]uint64{0.001: 5, 0.1: 8}},
		Locks: []lockwatch.LockState{{
			Datname: "plexsphere", Lock: "background-leader", Known: true, Expected: true, Holders: 1, Waiters: 2,
			Terms: 3, Unheld: 1500 * time.Millisecond, MultipleHolders: time.Second,
			Handover: lockwatch.Histogram{Count: 2, Sum: 6.5, Buckets: map[float64]uint64{1: 1, 5: 1, 10: 2}},
			Holder: &lockwatch.Holder{
				PID: 4711, ApplicationName: "plexsphere-a", Usename: "plexsphere", ClientAddr: "::1",
				BackendStart: moment().Add(-time.Hour), TermStart: moment().Add(-time.Minute), HeartbeatAge: 2500 * time.Millisecond, Visible: true,
			},
		}},
	}
}

// exposition returns what a scrape of the targets would read.
func exposition(t *testing.T, sources map[string]collector.Source) string {
	t.Helper()
	var targets []collector.Target
	for name, source := range sources {
		targets = append(targets, collector.Target{Name: name, Source: source})
	}
	return expositionOf(t, targets...)
}

func expositionOf(t *testing.T, targets ...collector.Target) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector.New(targets))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

func TestExpositionOfALedTarget(t *testing.T) {
	golden.Require(t, "led.golden", exposition(t, map[string]collector.Source{"default": fixed(led())}))
}

// Sessions that share the lock are holders, and none of them leads. A heartbeat of this moment is told.
func TestSharedHoldersLeadNothingAndAFreshHeartbeatIsTold(t *testing.T) {
	shared := led()
	shared.Locks[0].Holders, shared.Locks[0].Holder = 2, nil
	text := exposition(t, map[string]collector.Source{"default": fixed(shared)})
	for _, want := range []string{"leader_lock_held{datname=\"plexsphere\",lock=\"background-leader\",target=\"default\"} 0\n", "leader_lock_holders{datname=\"plexsphere\",lock=\"background-leader\",target=\"default\"} 2\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	fresh := led()
	fresh.Locks[0].Holder.HeartbeatAge = 0
	if text := exposition(t, map[string]collector.Source{"default": fixed(fresh)}); !strings.Contains(text, "\nleader_lock_holder_heartbeat_age_seconds{") {
		t.Errorf("a heartbeat of 0 s is missing:\n%s", text)
	}
}

func TestExpositionOfAnUnheldLock(t *testing.T) {
	snapshot := led()
	snapshot.Locks[0].Holders, snapshot.Locks[0].Waiters, snapshot.Locks[0].Holder = 0, 0, nil
	golden.Require(t, "unheld.golden", exposition(t, map[string]collector.Source{"default": fixed(snapshot)}))
}

// Down, stale and never asked are one: up 0, counters, and nothing about the present.
func TestUnknownIsAbsentNeverZero(t *testing.T) {
	down, stale, never, standby := led(), led(), led(), led()
	down.Up = false
	stale.At = time.Now().Add(-3*time.Second - time.Millisecond)
	never.Up, never.At, never.LastSuccess, never.Locks = false, time.Time{}, time.Time{}, nil
	standby.InRecovery, standby.Locks[0].Known = true, false
	golden.Require(t, "unknown.golden", exposition(t, map[string]collector.Source{
		"down": fixed(down), "stale": fixed(stale), "never": fixed(never), "standby": fixed(standby),
	}))
}

func TestSnapshotOfThreeIntervalsStillCounts(t *testing.T) {
	snapshot := led()
	snapshot.Interval = time.Hour
	snapshot.At = time.Now().Add(-3*time.Hour + time.Minute)
	if text := exposition(t, map[string]collector.Source{"default": fixed(snapshot)}); !strings.Contains(text, `leader_lock_up{target="default"} 1`) {
		t.Errorf("a snapshot younger than three intervals is not up:\n%s", text)
	}
}

// E28, E37: what the role cannot see is absent, and the holder is still told.
func TestHolderWithoutDetails(t *testing.T) {
	snapshot := led()
	snapshot.Locks[0].Holder = &lockwatch.Holder{PID: 4711, TermStart: moment(), HeartbeatAge: -1}
	golden.Require(t, "invisible.golden", exposition(t, map[string]collector.Source{"default": fixed(snapshot)}))
}

func TestMetricsPassPromlint(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector.New([]collector.Target{{Name: "default", Source: fixed(led())}}))
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
}

// E24: the labels of the present holder replace those of the last one.
func TestLeaderChangesAddNoSeries(t *testing.T) {
	var lines int
	for i, name := range []string{"a", "b", "c"} {
		snapshot := led()
		snapshot.Locks[0].Holder.ApplicationName = name
		got := strings.Count(exposition(t, map[string]collector.Source{"default": fixed(snapshot)}), "\n")
		if i > 0 && got != lines {
			t.Errorf("%d lines with holder %s, %d before", got, name, lines)
		}
		lines = got
	}
}

// Static labels are on every series of their target; what only another target has is empty, which Prometheus takes for absent.
func TestStaticLabels(t *testing.T) {
	text := expositionOf(t,
		collector.Target{Name: "a", Source: fixed(led()), Labels: map[string]string{"deployment": "eu", "tier": "gold"}},
		collector.Target{Name: "b", Source: fixed(led()), Labels: map[string]string{"deployment": "us"}},
		collector.Target{Name: "c", Source: fixed(led())},
	)
	for _, want := range []string{
		`leader_lock_up{deployment="eu",target="a",tier="gold"} 1`,
		`leader_lock_up{deployment="us",target="b",tier=""} 1`,
		`leader_lock_held{datname="plexsphere",deployment="",lock="background-leader",target="c",tier=""} 1`,
		`leader_exporter_poll_failures_total{deployment="eu",reason="connect",target="a",tier="gold"} 2`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
