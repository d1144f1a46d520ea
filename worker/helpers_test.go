package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/plexsphere/leader-exporter/internal/logtest"
	"github.com/plexsphere/leader-exporter/worker"
)

var errBroken = errors.New("broken")

// supervised is a Supervisor with what a test wants to look at.
type supervised struct {
	*worker.Supervisor
	logs     *logtest.Lines
	registry *prometheus.Registry
	stop     context.CancelFunc
	returned chan error
}

func newSupervised(t *testing.T, cfg worker.Config) *supervised {
	t.Helper()
	s := &supervised{logs: &logtest.Lines{}, registry: prometheus.NewRegistry(), returned: make(chan error, 1)}
	cfg.Logger, cfg.Registerer = slog.New(s.logs), s.registry
	var err error
	if s.Supervisor, err = worker.New(cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

// add registers a worker.
func (s *supervised) add(t *testing.T, name string, run func(ctx context.Context) error) {
	t.Helper()
	if err := s.Add(name, run); err != nil {
		t.Fatal(err)
	}
}

// run starts Run, and stops it at the end of the test.
func (s *supervised) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s.stop = cancel
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.returned <- s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// requireMetrics compares the values of a worker's metrics; that of the exhausted ones says what the probe does.
func (s *supervised) requireMetrics(t *testing.T, name string, up, restarts, panics int) {
	t.Helper()
	want, exhausted := "", 0
	if err := s.Ready(t.Context()); err != nil && strings.Contains(err.Error(), fmt.Sprintf("worker %q has exhausted", name)) {
		exhausted = 1
	}
	for _, m := range []struct {
		name, help, kind string
		value            int
	}{
		{"exhausted", "1 once the worker has spent its restart budget and is not started again, else 0.", "gauge", exhausted},
		{"panics_total", "Failures of the worker that were panics or calls of runtime.Goexit.", "counter", panics},
		{"restarts_total", "Restarts of the worker after a failure.", "counter", restarts},
		{"up", "1 while the worker runs; 0 before its start, while it waits for a restart, and once it is finished or exhausted.", "gauge", up},
	} {
		want += fmt.Sprintf("# HELP plexsphere_worker_%[1]s %[2]s\n# TYPE plexsphere_worker_%[1]s %[3]s\nplexsphere_worker_%[1]s{worker=%[4]q} %[5]d\n",
			m.name, m.help, m.kind, name, m.value)
	}
	filtered := filter{s.registry, name}
	if err := testutil.GatherAndCompare(filtered, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// pass lets so much time pass, and everything happen that is due by then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// untilStop is a worker that does nothing, and does it well.
func untilStop(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
