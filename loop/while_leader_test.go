package loop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/loop"
)

// T9, L17: no call on a standby, one in each term, never two at once, and the term's loss ends it.
func TestWhileLeaderRunsOnceATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		var calls, underWay atomic.Int32
		var cause error
		r.whileLeader(t, func(ctx context.Context) error {
			calls.Add(1)
			if n := underWay.Add(1); n != 1 {
				t.Errorf("%d calls at once", n)
			}
			<-ctx.Done()
			cause = context.Cause(ctx)
			time.Sleep(10 * time.Second) // its reaction
			underWay.Add(-1)
			return errBroken
		})
		require := func(moment string, want int32, running float64) {
			t.Helper()
			if calls.Load() != want || r.running(t) != running {
				t.Errorf("%s: %d calls, running %v; want %d, %v", moment, calls.Load(), r.running(t), want, running)
			}
		}
		pass(time.Hour)
		require("standby", 0, 0)
		r.elector.Lead()
		pass(time.Second)
		require("first term", 1, 1)
		pass(time.Hour)
		require("first term, later", 1, 1)
		r.elector.Lose()
		r.elector.Lead() // before the call of the first term has ended
		pass(time.Second)
		if !errors.Is(cause, leader.ErrLeadershipLost) {
			t.Errorf("cause %v", cause)
		}
		require("second term, the first call goes on", 1, 1)
		pass(9 * time.Second)
		require("second term", 2, 1)
		r.elector.Lose()
		pass(time.Hour)
		require("standby again", 2, 0)
		const want = "INFO background loop cut short by a demotion loop=sweep error=broken"
		if lines := r.logs.With(""); len(lines) != 2 || lines[0] != want {
			t.Errorf("log %q, want %q twice", lines, want)
		}
	})
}

// T10: a function that is done before its term ends is not called again in that term.
func TestWhileLeaderDoneEarlyRestsUntilTheNextTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		calls := 0
		r.whileLeader(t, func(context.Context) error { calls++; return nil })
		for term := 1; term <= 2; term++ {
			r.elector.Lead()
			pass(time.Hour)
			if calls != term || r.running(t) != 0 {
				t.Errorf("%d calls in %d terms, running %v", calls, term, r.running(t))
			}
			if lines := r.logs.With(""); len(lines) != term || lines[0] != "INFO background loop done for this term loop=sweep" {
				t.Errorf("log %q in %d terms", lines, term)
			}
			r.elector.Lose()
			pass(time.Hour)
		}
	})
}

// T10: an error or a panic within the term is the supervisor's, which calls Run again, in the same term too.
func TestWhileLeaderPassesFailuresOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.elector.Lead()
		calls := 0
		w := r.whileLeader(t, func(ctx context.Context) error {
			switch calls++; calls {
			case 1:
				return errBroken
			case 2:
				panic("boom")
			default:
				<-ctx.Done()
				return ctx.Err()
			}
		})
		if err := <-r.returned; !errors.Is(err, errBroken) || err.Error() != `loop: run "sweep": broken` {
			t.Errorf("Run = %v", err)
		}
		func() {
			defer func() {
				if value := recover(); value != "boom" {
					t.Errorf("Run panicked with %v", value)
				}
			}()
			_ = w.Run(t.Context())
		}()
		if r.running(t) != 0 {
			t.Error("still running after a panic")
		}
		r.run(t, w.Run)
		pass(time.Second)
		if calls != 3 || r.running(t) != 1 {
			t.Errorf("%d calls, running %v", calls, r.running(t))
		}
		if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `loop: run "sweep": it already runs`) {
			t.Errorf("second Run = %v", err)
		}
		r.stop()
		if err := <-r.returned; err != nil {
			t.Errorf("Run = %v after its context ended", err)
		}
		if lines := r.logs.With(""); len(lines) != 0 {
			t.Errorf("log %q", lines)
		}
	})
}

// T10: at the stop of Run, an error that tells of the stop is dropped, in whichever of its forms; another one is handed on.
func TestWhileLeaderHandsOnWhatFailsAtAStop(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(ctx context.Context) error
		want string
	}{
		"nil":         {func(context.Context) error { return nil }, ""},
		"its error":   {func(ctx context.Context) error { return fmt.Errorf("drain: %w", ctx.Err()) }, ""},
		"its cause":   {func(ctx context.Context) error { return fmt.Errorf("drain: %w", context.Cause(ctx)) }, ""},
		"another one": {func(context.Context) error { return errBroken }, `loop: run "sweep": broken`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.elector.Lead()
				r.whileLeader(t, func(ctx context.Context) error {
					<-ctx.Done()
					return tc.end(ctx)
				})
				pass(time.Second)
				r.stop()
				if err := <-r.returned; err == nil && tc.want != "" || err != nil && err.Error() != tc.want {
					t.Errorf("Run = %v, want %q", err, tc.want)
				}
				if lines := r.logs.With(""); len(lines) != 0 {
					t.Errorf("log %q", lines)
				}
			})
		})
	}
}

// T11: a gate without a predicate is open; one with a predicate asks it each time.
func TestGate(t *testing.T) {
	if !loop.Gate(nil).Open() {
		t.Error("a nil gate is closed")
	}
	r := newRig()
	gate := loop.Gate(r.elector.IsLeader)
	for range 2 {
		if gate.Open() {
			t.Error("open on a standby")
		}
		r.elector.Lead()
		if !gate.Open() {
			t.Error("closed on the leader")
		}
		r.elector.Lose()
	}
}
