package alerts_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/alerts"
)

// randomParams are intervals from a tenth of a second to a minute or two, in any relation to each other.
func randomParams(random *rand.Rand) alerts.Params {
	pick := func(from, to time.Duration) time.Duration {
		return from + time.Duration(random.Int64N(int64(to-from)/1e8+1))*100*time.Millisecond
	}
	scrape := pick(time.Second, time.Minute)
	return alerts.Params{
		CheckInterval: pick(100*time.Millisecond, time.Minute), ScrapeInterval: scrape, ScrapeTimeout: pick(100*time.Millisecond, min(scrape, 10*time.Second)),
		EvaluationInterval: pick(time.Second, time.Minute),
	}
}

func waits(t *testing.T, p alerts.Params) map[string]time.Duration {
	t.Helper()
	return durations(t, p, func(r shippedRule) string { return r.For })
}

// kept is for how long alerts go on when their condition has ended.
func kept(t *testing.T, p alerts.Params) map[string]time.Duration {
	t.Helper()
	return durations(t, p, func(r shippedRule) string { return r.Keep })
}

func durations(t *testing.T, p alerts.Params, field func(shippedRule) string) map[string]time.Duration {
	t.Helper()
	found := map[string]time.Duration{}
	for _, rule := range parseRules(t, []byte(mustRules(t, p))) {
		if field(rule) == "" {
			continue
		}
		wait, err := time.ParseDuration(field(rule))
		if err != nil {
			t.Fatal(err)
		}
		found[rule.Alert] = wait
	}
	return found
}

func TestNoWaitIsShorterThanItsFormula(t *testing.T) {
	random := seeded(t)
	for range 200 {
		p := randomParams(random)
		ci, s, timeout, e := p.CheckInterval, p.ScrapeInterval, p.ScrapeTimeout, p.EvaluationInterval
		handover, overlap := 5*ci+s+timeout+e, max(2*ci+s+timeout, s*21/10)+e
		least := map[string]time.Duration{
			"BackgroundLeaderMissing": handover, "BackgroundLeaderUnclaimed": handover, "LeaderExporterDown": handover, "LeaderExporterOnStandby": handover,
			"BackgroundLeaderMultiple": overlap, "BackgroundLeaderPhantom": overlap,
			"BackgroundLeaderMetricsAbsent": 2 * handover, "LeaderExporterTargetDown": 2*ci + s + e,
			"BackgroundLeaderHeartbeatStale": s + e, "BackgroundLeaderForeignHolder": s + e, "BackgroundWorkerExhausted": s + e,
			"BackgroundLoopFailing": max(60*ci, 20*s), "BackgroundLoopStalled": max(180*ci, 60*s),
		}
		got := waits(t, p)
		if len(got) != len(least) {
			t.Fatalf("%d waits; want %d", len(got), len(least))
		}
		for alert, least := range least {
			if got[alert] < least || got[alert] > least+2*time.Second {
				t.Fatalf("%s waits %s with %+v; want at least %s, and no more than the rounding above", alert, got[alert], p, least)
			}
		}
		if got["LeaderExporterTargetDown"] > got["BackgroundLeaderMissing"] {
			t.Fatalf("TargetDown comes too late to inhibit, with %+v", p)
		}
		if kept := kept(t, p); len(kept) != 1 || kept["LeaderExporterTargetDown"] < handover {
			t.Fatalf("kept firing %v with %+v; want TargetDown alone, for %s at least", kept, p, handover)
		}
	}
}

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// timeline is one fault as the replicas and the lock live it, from time 0 on.
type timeline struct {
	gone     bool          // the old leader's process is away from 0 on, and its scrapes fail
	demoted  time.Duration // until when the old leader claims
	free     time.Duration // when the lock is free
	followed time.Duration // when the next leader has the lock and claims
}

// faults are those of docs/leader.md, Bounds, as late as they are allowed to be or less.
func faults(random *rand.Rand, ci time.Duration) []timeline {
	upTo := func(d time.Duration) time.Duration {
		return d - time.Duration(random.Int64N(int64(d)/2+1))*time.Duration(random.IntN(2))
	}
	return []timeline{
		{followed: upTo(ci)},                               // clean stop of an elector
		{gone: true, followed: upTo(ci)},                   // clean stop of a process
		{demoted: 2 * ci, free: 4 * ci, followed: 5 * ci},  // partition
		{gone: true, free: upTo(4 * ci), followed: 5 * ci}, // power loss
		{demoted: upTo(2 * ci), followed: 0},               // cut off after its session ended, and the next leader is there at once
		{demoted: 2 * ci, followed: upTo(ci)},
	}
}

// A healthy handover, sampled by scrapes and evaluations of any phase, fires nothing: the model of Prometheus is this loop.
func TestHealthyHandoversFireNothingAtAnyIntervals(t *testing.T) {
	random := seeded(t)
	for range 150 {
		p := randomParams(random)
		wait := waits(t, p)
		for range 20 {
			for _, fault := range faults(random, p.CheckInterval) {
				for alert, longest := range watch(random, p, fault, 0) {
					if longest >= wait[alert] {
						t.Fatalf("%s would fire after %s, its wait is %s, with %+v and %+v", alert, longest, wait[alert], p, fault)
					}
				}
			}
		}
	}
}

// The same model notices a fault that lasts.
func TestHandoversThatLastFireAtAnyIntervals(t *testing.T) {
	random := seeded(t)
	for range 100 {
		p := randomParams(random)
		wait := waits(t, p)
		long := 2*wait["BackgroundLeaderMissing"] + 2*wait["BackgroundLeaderMultiple"]
		for alert, fault := range map[string]timeline{
			"BackgroundLeaderMissing":   {followed: long},
			"BackgroundLeaderUnclaimed": {free: long, followed: long},
			"BackgroundLeaderMultiple":  {demoted: long},
			"BackgroundLeaderPhantom":   {demoted: long, followed: long},
		} {
			if got := watch(random, p, fault, long)[alert]; got < wait[alert] {
				t.Fatalf("%s sees %s, its wait is %s, with %+v and %+v", alert, got, wait[alert], p, fault)
			}
		}
	}
}

// watch returns for how long Prometheus sees the condition of each alert on claims hold without a break, from its first evaluation to the last.
func watch(random *rand.Rand, p alerts.Params, f timeline, more time.Duration) map[string]time.Duration {
	phase := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	// sampled is the value that an evaluation at now reads: of the newest scrape that has returned. A scrape takes up to its timeout, and one that
	// fails takes all of it.
	sampler := func(value func(at time.Duration) int) func(now time.Duration) int {
		begin, took := phase(p.ScrapeInterval), phase(p.ScrapeTimeout)
		return func(now time.Duration) int {
			// The floor goes below 0, for the time before the fault.
			n := (now-begin+1000*p.ScrapeInterval)/p.ScrapeInterval - 1000
			at := begin + n*p.ScrapeInterval
			if v := value(at); v >= 0 && at+took <= now || v < 0 && at+p.ScrapeTimeout <= now {
				return v
			}
			return value(at - p.ScrapeInterval)
		}
	}
	boolean := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	old := sampler(func(at time.Duration) int {
		if f.gone && at >= 0 {
			return -1
		}
		return boolean(at < f.demoted)
	})
	next := sampler(func(at time.Duration) int { return boolean(at >= f.followed) })
	held := sampler(func(at time.Duration) int { return boolean(at < f.free || at >= f.followed) })

	longest, since := map[string]time.Duration{}, map[string]time.Duration{}
	end := more + 6*p.CheckInterval + 4*p.ScrapeInterval + 3*p.EvaluationInterval
	for now := phase(p.EvaluationInterval) - p.EvaluationInterval; now < end; now += p.EvaluationInterval {
		claims := max(old(now), 0) + next(now)
		for alert, holds := range map[string]bool{
			"BackgroundLeaderMissing":   claims == 0 && held(now) == 0,
			"BackgroundLeaderUnclaimed": claims == 0 && held(now) == 1,
			"BackgroundLeaderMultiple":  claims > 1,
			"BackgroundLeaderPhantom":   claims > 0 && held(now) == 0,
		} {
			begin, pending := since[alert]
			switch {
			case !holds:
				delete(since, alert)
			case !pending:
				since[alert] = now
			default:
				longest[alert] = max(longest[alert], now-begin)
			}
		}
	}
	return longest
}

// The cases A43, A51 and A53 and the like with the real rules: a deployment that is well, and what is done to it every day.
func TestNothingFiresOnADeploymentThatIsWell(t *testing.T) {
	t.Parallel()
	for _, p := range []alerts.Params{
		{},
		{CheckInterval: 500 * time.Millisecond, ScrapeInterval: time.Second, EvaluationInterval: time.Second},
		{CheckInterval: 30 * time.Second, ScrapeInterval: 15 * time.Second, EvaluationInterval: 5 * time.Second},
		{CheckInterval: 2 * time.Second, ScrapeInterval: time.Minute, EvaluationInterval: 30 * time.Second},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, shipped), []byte(mustRules(t, p)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "well.test.yaml"), []byte(well(p)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := promtool(t, "test", "rules", filepath.Join(dir, "well.test.yaml")); err != nil {
			t.Errorf("%+v: %v\n%s", p, err, out)
		}
	}
}

// well writes a promtool test of 60 scrapes: two deployments; a rolling restart of three replicas under new names, one every six scrapes, which
// moves the leader three times; a restart of the exporter; a loop that fails once.
func well(p alerts.Params) string {
	scrape, evaluation := p.ScrapeInterval, p.EvaluationInterval
	if scrape == 0 {
		scrape, evaluation = 15*time.Second, 15*time.Second
	}
	var b strings.Builder
	fmt.Fprintf(&b, "rule_files: [%s]\nevaluation_interval: %s\ntests:\n  - interval: %s\n    input_series:\n", shipped, evaluation, scrape)
	series := func(name, labels, values string) {
		fmt.Fprintf(&b, "      - {series: '%s{%s}', values: '%s'}\n", name, labels, values)
	}
	for deployment, gauges := range map[string]map[string]string{
		"prod": {
			"a": "1x9 stale", "b": "0x9 1x5 stale", "c": "0x15 1x5 stale",
			"a2": "_x10 0x10 1x50", "b2": "_x16 0x50", "c2": "_x22 0x50",
		},
		"stage": {"d": "1x70", "e": "0x70"},
	} {
		on := fmt.Sprintf("deployment=%q", deployment)
		for instance, values := range gauges {
			series("plexsphere_background_leader", on+fmt.Sprintf(", instance=%q, pod=%q", instance, "api-"+instance), values)
		}
		terms := "1x70"
		if deployment == "prod" {
			terms = "1x9 2x5 3x5 4x5 1x40"
		}
		lock := on + `, target="main", datname="app", lock="background-leader"`
		series("leader_lock_terms_total", lock, terms)
		series("leader_lock_held", lock, "1x8 0 1x5 0 1x5 0 1x40")
		series("leader_lock_foreign_holder", lock, "0x70")
		series("leader_lock_holder_heartbeat_age_seconds", lock, "0.1x70")
		series("leader_lock_held", strings.Replace(lock, "background-leader", "migrations", 1), "0x70")
		series("leader_lock_up", on+`, target="main"`, "1x25 stale 1x40")
		series("leader_lock_database_in_recovery", on+`, target="main"`, "0x70")
		series("leader_exporter_last_success_timestamp_seconds", on+`, target="main"`, fmt.Sprintf("0+%vx70", scrape.Seconds()))
		loop := on + `, instance="a2", loop="sweep"`
		series("plexsphere_background_loop_running", loop, "0x5 1x2 0x60")
		series("plexsphere_background_loop_ticks_total", loop+`, result="ok"`, "0+1x70")
		series("plexsphere_background_loop_ticks_total", loop+`, result="error"`, "0x30 1x40")
		series("plexsphere_worker_exhausted", on+`, instance="a2", worker="sweep"`, "0x70")
	}
	fmt.Fprintf(&b, "    promql_expr_test:\n      - {expr: 'count_over_time(ALERTS{alertstate=\"firing\"}[3h])', eval_time: %s, exp_samples: []}\n", 60*scrape)
	return b.String()
}
