package loop_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
	"github.com/plexsphere/leader-exporter/loop"
	"github.com/plexsphere/leader-exporter/worker"
)

// checkInterval is that of the electors in these tests.
const checkInterval = 5 * time.Second

// replica is an elector and three loops under a supervisor, on the scripted server.
type replica struct {
	*rig
	elector    *leader.Elector
	supervisor *worker.Supervisor
	tickers    []*loop.Ticker

	calls, underWay atomic.Int32 // of passes and of the self-paced loop
	breaks          atomic.Bool  // makes the worker "breaks" fail
}

func newReplica(t *testing.T, server *leadertest.Server, name string) *replica {
	t.Helper()
	r := &replica{rig: newRig()}
	logger := slog.New(r.logs)
	var err error
	r.elector, err = leader.New(leader.Config{
		Pool: server.Client(name).Pool(t), CheckInterval: checkInterval, Logger: logger, Registerer: r.registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.supervisor, err = worker.New(worker.Config{
		Logger: logger, Registerer: r.registry, MinBackoff: time.Second, Restarts: 2, Window: time.Minute,
		OnExhausted: func(ctx context.Context, _ string, _ error) {
			if err := r.elector.StepDown(ctx, time.Hour); err != nil {
				t.Error(err)
			}
		},
	})
	add := func(name string, run func(context.Context) error) {
		err = errors.Join(err, r.supervisor.Add(name, run))
	}
	add("background-leader", r.elector.Run)
	for _, name := range []string{"one", "two"} {
		ticker, tickerErr := loop.NewTicker(r.loop(name), func(context.Context) error {
			defer r.call(t)()
			time.Sleep(time.Second)
			return nil
		})
		err = errors.Join(err, tickerErr)
		r.tickers = append(r.tickers, ticker)
		add(name, ticker.Run)
	}
	paced, pacedErr := loop.NewWhileLeader(r.loop("paced"), func(ctx context.Context) error {
		defer r.call(t)()
		<-ctx.Done()
		return ctx.Err()
	})
	err = errors.Join(err, pacedErr)
	add("paced", paced.Run)
	add("breaks", func(ctx context.Context) error {
		for ctx.Err() == nil {
			if r.breaks.Load() {
				return errBroken
			}
			time.Sleep(time.Second)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *replica) loop(name string) loop.Config {
	return loop.Config{Name: name, Every: 10 * time.Second, Leader: r.elector, Logger: slog.New(r.logs), Registerer: r.registry}
}

// call counts a call, and fails when there is one more than there are loops.
func (r *replica) call(t *testing.T) (end func()) {
	r.calls.Add(1)
	if n := r.underWay.Add(1); n > 3 {
		t.Errorf("%d calls of three loops at once", n)
	}
	return func() { r.underWay.Add(-1) }
}

// requireReady fails unless all probes pass.
func (r *replica) requireReady(t *testing.T) {
	t.Helper()
	for _, ticker := range r.tickers {
		if err := ticker.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// L16, L31: a standby with three loops calls none of them, passes all probes, says nothing about leadership, and is cancelled
// in silence.
func TestStandbyWithLoopsDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := leadertest.NewServer(t)
		first, second := newReplica(t, server, "first"), newReplica(t, server, "second")
		first.requireReady(t) // before any election result
		first.run(t, first.supervisor.Run)
		synctest.Wait()
		second.run(t, second.supervisor.Run)
		pass(time.Hour)
		second.requireReady(t)
		second.stop()
		if err := <-second.returned; err != nil || second.calls.Load() != 0 {
			t.Errorf("Run = %v after %d calls on a standby", err, second.calls.Load())
		}
		term, cancel, leads := second.elector.Term(t.Context())
		defer cancel()
		if leads || term.Err() == nil {
			t.Errorf("Term = %v, %v; want an ended context", term.Err(), leads)
		}
		if lines := second.logs.With(""); len(lines) != 0 {
			t.Errorf("log %q", lines)
		}
		if first.calls.Load() == 0 {
			t.Error("the leader did nothing either")
		}
	})
}

// L17, L33: over three terms of five ticks each, every tick runs, none at the same time as itself, and a self-paced loop once
// in each term, on the replica that leads.
func TestLoopsFollowTheElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := leadertest.NewServer(t)
		replicas := []*replica{newReplica(t, server, "a"), newReplica(t, server, "b")}
		for _, r := range replicas {
			r.run(t, r.supervisor.Run)
			pass(time.Second)
		}
		const terms, ticks = 3, 5
		for term := range terms {
			i := slices.IndexFunc(replicas, func(r *replica) bool { return r.elector.IsLeader() })
			if i < 0 {
				t.Fatalf("term %d: nobody leads", term)
			}
			before := replicas[i].calls.Load()
			pass(ticks * 10 * time.Second)
			// two tickers, and the self-paced loop once, in the first second of its term
			if got := replicas[i].calls.Load() - before; got < 2*ticks || got > 2*ticks+1 {
				t.Errorf("term %d: %d calls on the leader, want %d, and one more", term, got, 2*ticks)
			}
			if err := replicas[i].elector.StepDown(t.Context(), 2*checkInterval); err != nil {
				t.Error(err)
			}
			pass(2 * checkInterval)
		}
		total := replicas[0].calls.Load() + replicas[1].calls.Load()
		if least := int32(2*ticks*terms + terms); total < least {
			t.Errorf("%d calls in all, want at least %d", total, least)
		}
	})
}

// W4, L37: exhaustion can ask the elector to step down: within one check interval another replica leads and runs the loops.
func TestExhaustionHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := leadertest.NewServer(t)
		first, second := newReplica(t, server, "first"), newReplica(t, server, "second")
		first.run(t, first.supervisor.Run)
		synctest.Wait()
		second.run(t, second.supervisor.Run)
		pass(time.Minute)
		if !first.elector.IsLeader() {
			t.Fatal("the first replica does not lead")
		}
		first.breaks.Store(true)
		pass(5 * time.Second) // a look, two restarts and their backoffs
		for deadline := time.Now().Add(checkInterval); !second.elector.IsLeader() && time.Now().Before(deadline); {
			pass(time.Millisecond)
		}
		if first.elector.IsLeader() || !second.elector.IsLeader() {
			t.Errorf("first leads: %v, second leads: %v", first.elector.IsLeader(), second.elector.IsLeader())
		}
		if err := first.supervisor.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), `worker "breaks" has exhausted its budget`) {
			t.Errorf("Ready = %v", err)
		}
		pass(20 * time.Second)
		if second.calls.Load() < 3 {
			t.Errorf("%d calls on the new leader", second.calls.Load())
		}
		second.stop()
		<-second.returned
		pass(30 * time.Minute)
		if first.elector.IsLeader() {
			t.Error("a replica with an exhausted worker took the lock again during its rest")
		}
	})
}

// L35: every metric of the documentation is gathered after a cycle, and promlint has nothing to say.
func TestMetricsAreWellFormed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, leadertest.NewServer(t), "a")
		r.run(t, r.supervisor.Run)
		pass(time.Minute)
		requireMetrics(t, r.registry)
	})
}
