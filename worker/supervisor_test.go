package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/plexsphere/leader-exporter/worker"
)

// W1: all workers start together, and end with the context.
func TestRunStartsAllAndEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervised(t, worker.Config{})
		ended := 0
		for _, name := range []string{"a", "b"} {
			s.add(t, name, untilStop)
		}
		s.add(t, "c", func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended++
			return nil
		})
		s.requireMetrics(t, "a", 0, 0, 0)
		s.run(t)
		synctest.Wait()
		for _, name := range []string{"a", "b", "c"} {
			s.requireMetrics(t, name, 1, 0, 0)
		}
		begun := time.Now()
		s.stop()
		if err := <-s.returned; err != nil || time.Since(begun) != time.Second || ended != 1 {
			t.Errorf("Run = %v after %v, want nil once the last worker has ended", err, time.Since(begun))
		}
		s.requireMetrics(t, "a", 0, 0, 0)
		if lines := s.logs.With(""); len(lines) != 0 {
			t.Errorf("a clean stop logged %q", lines)
		}
	})
}

// W2, W3: each way to fail restarts the worker after a backoff that doubles up to its bound, and disturbs no other worker.
func TestFailuresRestartWithGrowingBackoff(t *testing.T) {
	for name, tc := range map[string]struct {
		fail    func() error
		panics  int
		logged  string
		failure string
	}{
		"error":        {func() error { return errBroken }, 0, "", "error=broken "},
		"panic":        {func() error { panic("boom") }, 6, "ERROR background worker panicked worker=victim panic=boom stack=", `error=panic: boom `},
		"panic(error)": {func() error { panic(errBroken) }, 6, "panic=broken stack=", `error=panic: broken `},
		"panic(nil)":   {func() error { panic(nil) }, 6, "panic called with nil argument", "panic called with nil argument"}, //nolint:govet // the point of the test
		"Goexit":       {func() error { runtime.Goexit(); return nil }, 6, "panic=runtime.Goexit was called stack=", "runtime.Goexit was called"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSupervised(t, worker.Config{MinBackoff: time.Second, MaxBackoff: 5 * time.Second})
				var starts []time.Duration
				begun := time.Now()
				s.add(t, "victim", func(ctx context.Context) error {
					starts = append(starts, time.Since(begun))
					if len(starts) <= 6 {
						return tc.fail()
					}
					return untilStop(ctx)
				})
				bystander := 0
				s.add(t, "bystander", func(ctx context.Context) error { bystander++; return untilStop(ctx) })
				s.run(t)
				pass(2500 * time.Millisecond)
				s.requireMetrics(t, "victim", 0, 1, min(tc.panics, 2))
				pass(time.Minute)
				if want := "[0s 1s 3s 7s 12s 17s 22s]"; fmt.Sprint(starts) != want {
					t.Errorf("starts at %v, want %v", starts, want)
				}
				s.requireMetrics(t, "victim", 1, 6, tc.panics)
				s.requireMetrics(t, "bystander", 1, 0, 0)
				if bystander != 1 {
					t.Errorf("the other worker was started %d times", bystander)
				}
				panics, failures := s.logs.With("background worker panicked"), s.logs.With("WARN background worker failed worker=victim ")
				if len(panics) != tc.panics || len(failures) != 6 {
					t.Fatalf("log:\n%s", strings.Join(s.logs.With(""), "\n"))
				}
				if tc.panics > 0 && (!strings.Contains(panics[0], tc.logged) || !strings.Contains(panics[0], "supervisor_test.go")) {
					t.Errorf("line %q; want %q and a stack that shows where", panics[0], tc.logged)
				}
				if !strings.Contains(failures[1], tc.failure) || !strings.HasSuffix(failures[1], "restart_in=2s") {
					t.Errorf("line %q", failures[1])
				}
				if err := s.Ready(t.Context()); err != nil {
					t.Errorf("Ready = %v of a worker that runs again", err)
				}
			})
		})
	}
}

// W4, L30, L37: a worker that has spent its budget is named by the probe with its last failure, and stays so; others go on.
func TestExhaustedWorkerIsNamedAndStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type call struct {
			worker string
			err    error
			ctx    context.Context
		}
		var mu sync.Mutex
		var calls []call // guarded by mu: two may be exhausted at once
		s := newSupervised(t, worker.Config{MinBackoff: time.Second, Restarts: 3, Window: time.Minute, OnExhausted: func(ctx context.Context, worker string, err error) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, call{worker, err, ctx})
			panic("in the callback")
		}})
		starts := 0
		s.add(t, "victim", func(context.Context) error { starts++; return fmt.Errorf("start %d: %w", starts, errBroken) })
		s.add(t, "other", func(context.Context) error { panic(errBroken) })
		s.add(t, "bystander", untilStop)
		s.run(t)
		pass(6 * time.Second)
		if err := s.Ready(t.Context()); err != nil {
			t.Errorf("Ready = %v before the budget is spent", err)
		}
		for range 2 {
			pass(time.Hour)
			err := s.Ready(t.Context())
			const want = `worker "victim" has exhausted its budget of 3 restarts within 1m0s: start 4: broken
worker "other" has exhausted its budget of 3 restarts within 1m0s: panic: broken`
			if err == nil || err.Error() != want || !errors.Is(err, errBroken) {
				t.Errorf("Ready = %v, want %s", err, want)
			}
			var panicked *worker.PanicError
			if !errors.As(err, &panicked) || !strings.Contains(string(panicked.Stack), "supervisor_test.go") {
				t.Errorf("the panic's stack is lost: %v", panicked)
			}
		}
		if starts != 4 {
			t.Errorf("%d starts, want one and three restarts", starts)
		}
		s.requireMetrics(t, "victim", 0, 3, 1) // the callback's panic
		s.requireMetrics(t, "bystander", 1, 0, 0)
		if len(calls) != 2 || calls[0].worker == calls[1].worker {
			t.Errorf("OnExhausted got %v", calls)
		}
		for _, c := range calls {
			if c.ctx.Err() != nil || !errors.Is(c.err, errBroken) {
				t.Errorf("OnExhausted got %v", c)
			}
		}
		const line = "ERROR background worker exhausted its restart budget worker=victim error=start 4: broken restarts=3 window=1m0s"
		if got := s.logs.With("exhausted its restart budget"); len(got) != 2 || !slices.Contains(got, line) {
			t.Errorf("log %q, want %q in it", got, line)
		}
	})
}

// W4: only restarts within the window count, so a worker that fails now and then is never exhausted.
func TestRestartsOutOfTheWindowDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervised(t, worker.Config{MinBackoff: time.Second, Restarts: 3, Window: time.Minute, StopTimeout: -1})
		starts := 0
		s.add(t, "victim", func(context.Context) error { starts++; time.Sleep(20 * time.Second); return errBroken })
		s.run(t)
		pass(time.Hour)
		if err := s.Ready(t.Context()); err != nil || starts < 150 {
			t.Errorf("Ready = %v after %d starts in an hour", err, starts)
		}
	})
}

// W4: a negative budget is none.
func TestNegativeBudgetMeansNoRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervised(t, worker.Config{Restarts: -1})
		s.add(t, "victim", func(context.Context) error { return errBroken })
		s.run(t)
		synctest.Wait()
		if err := s.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "budget of 0 restarts") {
			t.Errorf("Ready = %v", err)
		}
	})
}

// W5, L30: the end of the context ends a backoff at once, and starts nothing.
func TestStopDuringABackoffReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervised(t, worker.Config{MinBackoff: time.Minute})
		starts := 0
		s.add(t, "victim", func(context.Context) error { starts++; return errBroken })
		s.run(t)
		time.Sleep(time.Second)
		begun := time.Now()
		s.stop()
		if err := <-s.returned; err != nil || time.Since(begun) != 0 || starts != 1 {
			t.Errorf("Run = %v after %v and %d starts", err, time.Since(begun), starts)
		}
	})
}

// W5: what fails as it is stopped is logged, unless it only repeats that it was stopped, and not restarted.
func TestFailureDuringTheStopIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervised(t, worker.Config{})
		s.add(t, "torn", func(ctx context.Context) error { <-ctx.Done(); return errBroken })
		s.add(t, "thrown", func(ctx context.Context) error { <-ctx.Done(); panic("boom") })
		s.add(t, "wrapped", func(ctx context.Context) error { <-ctx.Done(); return fmt.Errorf("read: %w", ctx.Err()) })
		s.run(t)
		synctest.Wait()
		s.stop()
		<-s.returned
		lines := s.logs.With("WARN background worker failed")
		if len(lines) != 2 || len(s.logs.With("worker=wrapped")) != 0 || len(s.logs.With("panicked worker=thrown")) != 1 {
			t.Errorf("log %q", s.logs.With(""))
		}
		s.requireMetrics(t, "torn", 0, 0, 0)
		s.requireMetrics(t, "thrown", 0, 0, 1)
	})
}

// W5: a context that has ended starts nothing.
func TestRunWithAnEndedContextStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervised(t, worker.Config{})
		s.add(t, "late", func(context.Context) error { t.Error("started"); return nil })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

// W5: a worker may say with either the error or the cause of its context that it was stopped.
func TestStoppedWorkerMayReturnTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervised(t, worker.Config{})
		s.add(t, "cause", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		s.add(t, "error", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errBroken) })
		if err := s.Run(ctx); err != nil || len(s.logs.With("")) != 0 {
			t.Errorf("Run = %v, log %q", err, s.logs.With(""))
		}
	})
}

// W2: an error that speaks of an ended context is a failure while the worker's own context is live.
func TestTimeoutOfTheWorkersOwnIsAFailure(t *testing.T) {
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			s := newSupervised(t, worker.Config{})
			starts := 0
			s.add(t, "victim", func(context.Context) error { starts++; return fmt.Errorf("query: %w", cause) })
			s.run(t)
			pass(10 * time.Second)
			if starts < 3 {
				t.Errorf("%d starts after %v", starts, cause)
			}
		})
	}
}

// W6: a worker that returns nil is finished, which is no failure.
func TestFinishedWorkerIsNotRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervised(t, worker.Config{})
		starts := 0
		s.add(t, "done", func(context.Context) error { starts++; return nil })
		s.run(t)
		pass(time.Hour)
		if err := s.Ready(t.Context()); err != nil || starts != 1 {
			t.Errorf("Ready = %v after %d starts", err, starts)
		}
		s.requireMetrics(t, "done", 0, 0, 0)
		if got := s.logs.With("INFO background worker finished worker=done"); len(got) != 1 {
			t.Errorf("log %q", s.logs.With(""))
		}
		select {
		case err := <-s.returned:
			t.Errorf("Run = %v before its context ended", err)
		default:
		}
	})
}

// W7: Run gives up waiting for a worker that ignores its context, and names it.
func TestRunNamesWhatDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervised(t, worker.Config{StopTimeout: 3 * time.Second})
		release := make(chan struct{})
		defer close(release)
		for _, name := range []string{"stuck", "deaf"} {
			s.add(t, name, func(context.Context) error { <-release; return nil })
		}
		s.add(t, "good", untilStop)
		s.run(t)
		synctest.Wait()
		begun := time.Now()
		s.stop()
		err := <-s.returned
		const want = "worker: run: still running 3s after the end of the context: stuck, deaf"
		if err == nil || err.Error() != want || time.Since(begun) != 3*time.Second {
			t.Errorf("Run = %v after %v, want %s", err, time.Since(begun), want)
		}
		if got := s.logs.With("WARN background workers ignore the end of their context workers="); len(got) != 1 {
			t.Errorf("log %q", s.logs.With(""))
		}
	})
}

// W7: a worker that ends in the very moment of the timeout is not blamed, and nor is nobody.
func TestWorkerThatEndsWithTheTimeoutIsNotNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 { // two goroutines race at each
			s := newSupervised(t, worker.Config{StopTimeout: time.Second})
			s.add(t, "punctual", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Second); return nil })
			s.run(t)
			synctest.Wait()
			s.stop()
			if err := <-s.returned; err != nil && !strings.HasSuffix(err.Error(), ": punctual") {
				t.Fatalf("Run = %v, and names nobody", err)
			}
			synctest.Wait()
		}
	})
}

// W7: with a negative StopTimeout Run waits for as long as it takes.
func TestNegativeStopTimeoutWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervised(t, worker.Config{StopTimeout: -1})
		s.add(t, "slow", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Hour); return nil })
		s.run(t)
		synctest.Wait()
		s.stop()
		if err := <-s.returned; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

// W8: a name is taken once, before Run, and a supervisor runs once.
func TestMisuseIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervised(t, worker.Config{})
		s.add(t, "a", untilStop)
		for name, want := range map[string]string{
			"a":    `worker: add "a": the name is taken`,
			"":     `worker: add "": a name is text in UTF-8, and not empty`,
			"\xff": `worker: add "\xff": a name is text in UTF-8, and not empty`,
		} {
			if err := s.Add(name, untilStop); err == nil || err.Error() != want {
				t.Errorf("Add(%q) = %v, want %s", name, err, want)
			}
		}
		if err := s.Add("nil", nil); err == nil || !strings.Contains(err.Error(), "its function is nil") {
			t.Errorf("Add of nil = %v", err)
		}
		s.run(t)
		synctest.Wait()
		if err := s.Add("late", untilStop); err == nil || !strings.Contains(err.Error(), "has begun to run") {
			t.Errorf("Add after Run = %v", err)
		}
		if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "a supervisor runs once") {
			t.Errorf("second Run = %v", err)
		}
		s.requireMetrics(t, "a", 1, 0, 0)
	})
}

// W8: fields that contradict each other are all named at once.
func TestContradictingConfigIsRefused(t *testing.T) {
	_, err := worker.New(worker.Config{MinBackoff: 2 * time.Minute, MaxBackoff: time.Minute, Restarts: 1 << 40, Window: 10 * time.Minute})
	for _, want := range []string{
		"worker: new supervisor: ",
		"Config.MaxBackoff 1m0s is below MinBackoff 2m0s",
		"Config.Restarts 1099511627776 could never be spent: their backoff alone takes 640511h56m49.213693951s or more, and Window is 10m0s",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want %q in it", err, want)
		}
	}
	for _, cfg := range []worker.Config{{}, {MinBackoff: 2 * time.Minute, Restarts: 5}, {Restarts: 15}, {MinBackoff: time.Hour}, {Restarts: math.MaxInt}, {Restarts: 1}, {Restarts: -1}, {MaxBackoff: time.Nanosecond, MinBackoff: time.Nanosecond, Restarts: 1000}} {
		if _, err := worker.New(cfg); err != nil {
			t.Errorf("New(%+v) = %v", cfg, err)
		}
	}
}

// W9, L35: supervisors share the metrics of a registry; something else under a name is an error; promlint has nothing to say.
func TestMetricsAreSharedAndWellFormed(t *testing.T) {
	registry := prometheus.NewRegistry()
	for _, name := range []string{"a", "b"} {
		s, err := worker.New(worker.Config{Registerer: registry})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Add(name, untilStop); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := testutil.GatherAndCount(registry); n != 8 || err != nil {
		t.Errorf("%d series, %v; want four of each worker", n, err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) != 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "plexsphere_worker_restarts_total", Help: "Restarts of the worker after a failure.",
	}, []string{"worker"}))
	if _, err := worker.New(worker.Config{Registerer: taken}); err == nil || !strings.Contains(err.Error(), "holds a *prometheus.GaugeVec in the place of a *prometheus.CounterVec") {
		t.Errorf("New on a taken name = %v", err)
	}
}
