package loop_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/loop"
)

// T1, L33: on the leader every tick makes a pass, on its cadence, in a context of the term; on a standby none does.
func TestTickerPassesOnlyWhileLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		begun := time.Now()
		var at []time.Duration
		var term context.Context
		r.ticker(t, func(ctx context.Context) error {
			at, term = append(at, time.Since(begun)), ctx
			return nil
		})
		for range 3 {
			pass(2 * every) // a standby
			r.elector.Lead()
			pass(5 * every)
			if err := term.Err(); !errors.Is(err, context.Canceled) {
				t.Errorf("the context of a pass that returned: %v", err)
			}
			r.elector.Lose()
		}
		var want []time.Duration
		for minute := time.Duration(1); minute <= 21; minute++ {
			if (minute-1)%7 >= 2 {
				want = append(want, minute*every)
			}
		}
		if fmt.Sprint(at) != fmt.Sprint(want) {
			t.Errorf("passes at %v, want %v", at, want)
		}
		r.requireTicks(t, 15, 0, 0, 0)
		if lines := r.logs.With(""); len(lines) != 0 {
			t.Errorf("log %q of healthy ticks", lines)
		}
	})
}

// T2: a pass never overlaps itself; a slow one delays only the ticks that it covers, and makes up for none.
func TestSlowPassDelaysItsOwnTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.elector.Lead()
		begun := time.Now()
		var at []time.Duration
		underWay := 0
		r.ticker(t, func(context.Context) error {
			underWay++
			if underWay != 1 {
				t.Errorf("%d passes at once", underWay)
			}
			at = append(at, time.Since(begun))
			if len(at) == 2 {
				time.Sleep(2*every + every/2)
			}
			underWay--
			return nil
		})
		pass(3 * every)
		if r.running(t) != 1 {
			t.Error("a pass that hangs does not show in plexsphere_background_loop_running")
		}
		pass(4 * every)
		// the tick of minute 3 waits for the pass, that of minute 4 is left out
		if want := "[1m0s 2m0s 4m30s 5m0s 6m0s 7m0s]"; fmt.Sprint(at) != want {
			t.Errorf("passes at %v, want %s", at, want)
		}
		if r.running(t) != 0 {
			t.Error("no pass is under way")
		}
	})
}

// T3: a pass that hangs ends with its own reaction to the end of its context, and Run with it.
func TestStopEndsAPassByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.elector.Lead()
		var cause error
		ticker := r.ticker(t, func(ctx context.Context) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			time.Sleep(3 * time.Second) // its reaction
			return ctx.Err()
		})
		pass(every + time.Second)
		begun := time.Now()
		r.stop()
		if err := <-r.returned; err != nil || time.Since(begun) != 3*time.Second || !errors.Is(cause, context.Canceled) {
			t.Errorf("Run = %v after %v, cause %v; want nil after 3s", err, time.Since(begun), cause)
		}
		if err := ticker.Ready(t.Context()); err != nil {
			t.Errorf("Ready = %v after a stop", err)
		}
		r.requireTicks(t, 0, 0, 0, 1)
		if lines := r.logs.With(""); len(lines) != 0 {
			t.Errorf("log %q of a stop", lines)
		}
	})
}

// T4: the loss of the term ends the pass under way, which is no failure, whatever it returns.
func TestLostTermIsNoFailure(t *testing.T) {
	for _, result := range []error{nil, errBroken} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.elector.Lead()
			var cause error
			ticker := r.ticker(t, func(ctx context.Context) error {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return result
			})
			pass(every + time.Second)
			r.elector.Lose()
			synctest.Wait()
			if !errors.Is(cause, leader.ErrLeadershipLost) {
				t.Errorf("cause %v", cause)
			}
			if err := ticker.Ready(t.Context()); err != nil {
				t.Errorf("Ready = %v", err)
			}
			r.requireTicks(t, 0, 0, 0, 1)
			if r.family(t, "last_success_timestamp_seconds") != nil {
				t.Error("a pass cut short counts as a success")
			}
			if lines := r.logs.With(""); len(lines) != 0 {
				t.Errorf("log %q", lines)
			}
		})
	}
}

// T5: each failed tick writes one WARN line, and only a success moves the time of the last one.
func TestFailedTickWarns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.elector.Lead()
		var fails atomic.Bool
		r.ticker(t, unless(&fails))
		if r.family(t, "last_success_timestamp_seconds") != nil {
			t.Error("a last success before the first tick")
		}
		pass(every)
		succeeded := time.Now()
		fails.Store(true)
		pass(2 * every)
		got := r.family(t, "last_success_timestamp_seconds").GetMetric()[0].GetGauge().GetValue()
		if got != float64(succeeded.UnixNano())/1e9 {
			t.Errorf("last success %v, want %v", got, succeeded)
		}
		r.requireTicks(t, 1, 2, 0, 0)
		const want = "WARN background loop tick failed loop=sweep error=broken"
		if lines := r.logs.With(""); len(lines) != 2 || lines[0] != want {
			t.Errorf("log %q, want %q twice", lines, want)
		}
	})
}

// T6, L29: a pass that panics, or calls runtime.Goexit, is a failed tick with the spec's line and text, and the loop ticks on.
func TestPanickingPassIsAFailedTick(t *testing.T) {
	for name, tc := range map[string]struct {
		unwind func()
		value  string
	}{
		"panic":        {func() { panic("boom") }, "boom"},
		"panic(error)": {func() { panic(errBroken) }, "broken"},
		"panic(nil)":   {func() { panic(nil) }, "panic called with nil argument"}, //nolint:govet // the point of the test
		"Goexit":       {runtime.Goexit, "runtime.Goexit was called"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.elector.Lead()
				n := 0
				ticker := r.ticker(t, func(context.Context) error {
					if n++; n == 3 {
						tc.unwind()
					}
					return nil
				})
				pass(3 * every)
				want := `plexsphere: background loop "sweep": tick panicked: ` + tc.value
				if err := ticker.Ready(t.Context()); err == nil || err.Error() != want {
					t.Errorf("Ready = %v, want %s", err, want)
				}
				if r.running(t) != 0 {
					t.Error("a pass that has ended still counts as running")
				}
				thrown := r.logs.With("ERROR background loop tick panicked loop=sweep panic=" + tc.value + " stack=goroutine ")
				if len(thrown) != 1 || !strings.Contains(thrown[0], "ticker_test.go") {
					t.Errorf("log %q, want one line with the stack", r.logs.With(""))
				}
				if warned := r.logs.With("WARN background loop tick failed loop=sweep error=" + want); len(warned) != 1 || len(r.logs.With("")) != 2 {
					t.Errorf("log %q, want the WARN line of a failed tick too", r.logs.With(""))
				}
				pass(every)
				if err := ticker.Ready(t.Context()); err != nil || n != 4 {
					t.Errorf("Ready = %v after tick %d", err, n)
				}
				r.requireTicks(t, 3, 0, 1, 0)
			})
		})
	}
}

// T4, T6: a panic beside the loss of its term is logged and counted, and no failure: the probe stays as it was.
func TestPanicAfterTheTermIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.elector.Lead()
		passes := 0
		ticker := r.ticker(t, func(ctx context.Context) error {
			if passes++; passes == 1 {
				return errBroken
			}
			<-ctx.Done()
			panic("boom")
		})
		pass(2 * every)
		r.elector.Lose()
		synctest.Wait()
		if err := ticker.Ready(t.Context()); !errors.Is(err, errBroken) {
			t.Errorf("Ready = %v, want the error of the tick before", err)
		}
		r.requireTicks(t, 0, 1, 1, 0)
		if lines := r.logs.With(""); len(lines) != 2 || !strings.HasPrefix(lines[1], "ERROR background loop tick panicked") {
			t.Errorf("log %q", lines)
		}
	})
}

// T7: of Run and Boot one at a time is under way; Run may be called again.
func TestTickerRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		ticker := r.ticker(t, func(context.Context) error { return nil })
		synctest.Wait()
		for what, err := range map[string]error{"run": ticker.Run(t.Context()), "boot": ticker.Boot(t.Context())} {
			if want := "loop: " + what + ` "sweep": `; err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("second %s = %v", what, err)
			}
		}
		r.stop()
		<-r.returned
		r.elector.Lead()
		r.run(t, ticker.Run)
		pass(every)
		r.requireTicks(t, 1, 0, 0, 0)
	})
}

// T7: everything that is missing from a Config is named at once.
func TestIncompleteConfigIsRefused(t *testing.T) {
	_, err := loop.NewTicker(loop.Config{}, nil)
	for _, want := range []string{
		`loop: new ticker "": Config.Name "" is empty`, "Config.Every is 0s, want more than 0", "Config.Leader is nil", "the function is nil",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewTicker = %v, want %q in it", err, want)
		}
	}
	_, err = loop.NewWhileLeader(loop.Config{Name: "\xff"}, nil)
	for _, want := range []string{`loop: new while-leader "\xff": Config.Name "\xff" is empty or not UTF-8`, "Config.Leader is nil", "the function is nil"} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Every") {
			t.Errorf("NewWhileLeader = %v, want %q in it", err, want)
		}
	}
}
