package loop_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/plexsphere/leader-exporter/internal/logtest"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
	"github.com/plexsphere/leader-exporter/loop"
)

// every is the cadence of the loops in the tests.
const every = time.Minute

var errBroken = errors.New("broken")

// rig is what a loop under test is connected to.
type rig struct {
	elector  *leadertest.Elector
	logs     *logtest.Lines
	registry *prometheus.Registry
	stop     context.CancelFunc
	returned chan error
}

func newRig() *rig {
	return &rig{elector: &leadertest.Elector{}, logs: &logtest.Lines{}, registry: prometheus.NewRegistry(), returned: make(chan error, 1)}
}

func (r *rig) config() loop.Config {
	return loop.Config{Name: "sweep", Every: every, Leader: r.elector, Logger: slog.New(r.logs), Registerer: r.registry}
}

// ticker makes a Ticker and runs it.
func (r *rig) ticker(t *testing.T, pass func(ctx context.Context) error) *loop.Ticker {
	t.Helper()
	ticker, err := loop.NewTicker(r.config(), pass)
	if err != nil {
		t.Fatal(err)
	}
	r.run(t, ticker.Run)
	return ticker
}

// whileLeader makes a WhileLeader that asks every second, and runs it.
func (r *rig) whileLeader(t *testing.T, run func(ctx context.Context) error) *loop.WhileLeader {
	t.Helper()
	cfg := r.config()
	cfg.Every = 0
	w, err := loop.NewWhileLeader(cfg, run)
	if err != nil {
		t.Fatal(err)
	}
	r.run(t, w.Run)
	return w
}

// run starts the loop, and stops it at the end of the test.
func (r *rig) run(t *testing.T, run func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.returned <- run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// family gathers the metric of that name, which may be absent.
func (r *rig) family(t *testing.T, name string) *dto.MetricFamily {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "plexsphere_background_loop_"+name {
			return f
		}
	}
	return nil
}

// ticks returns how many ticks had the result.
func (r *rig) ticks(t *testing.T, result string) int {
	t.Helper()
	for _, m := range r.family(t, "ticks_total").GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == "result" && label.GetValue() == result {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	t.Fatalf("no series of the result %s", result)
	return 0
}

// requireTicks compares the numbers of ticks by result, and their durations' with the sum.
func (r *rig) requireTicks(t *testing.T, ok, failed, panicked, lost int) {
	t.Helper()
	got := [4]int{r.ticks(t, "ok"), r.ticks(t, "error"), r.ticks(t, "panic"), r.ticks(t, "lost")}
	if got != [4]int{ok, failed, panicked, lost} {
		t.Errorf("ticks ok, error, panic, lost: %v; want %v", got, [4]int{ok, failed, panicked, lost})
	}
	if n := r.family(t, "tick_duration_seconds").GetMetric()[0].GetHistogram().GetSampleCount(); int(n) != ok+failed+panicked+lost {
		t.Errorf("%d durations, want %d", n, ok+failed+panicked+lost)
	}
}

// running returns the gauge of that name.
func (r *rig) running(t *testing.T) float64 {
	t.Helper()
	return r.family(t, "running").GetMetric()[0].GetGauge().GetValue()
}

// pass lets so much time pass, and everything happen that is due by then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// unless returns a pass that succeeds unless fails is set.
func unless(fails *atomic.Bool) func(ctx context.Context) error {
	return func(context.Context) error {
		if fails.Load() {
			return errBroken
		}
		return nil
	}
}

// untilStop is a function that does nothing, and does it well.
func untilStop(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
