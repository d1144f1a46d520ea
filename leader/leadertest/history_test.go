package leadertest_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

func TestRegistererSeesEachBeginAndEndOfATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := leadertest.NewServer(t)
		client := server.Client("a")
		var h leadertest.History
		elector, err := leader.New(leader.Config{
			Pool: client.Pool(t), Logger: slog.New(slog.DiscardHandler), Registerer: h.Registerer("a"),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = elector.Run(ctx) }()
		synctest.Wait()
		begin := time.Now()
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		want := []leadertest.Event{
			{At: begin.Round(0), Kind: leadertest.TermBegan, Replica: "a"},
			{At: begin.Add(time.Second).Round(0), Kind: leadertest.TermEnded, Replica: "a"},
		}
		if diff := cmp.Diff(want, h.Events()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestRegistererAcceptsEverythingElse(t *testing.T) {
	var h leadertest.History
	registry := h.Registerer("a")
	other := prometheus.NewGauge(prometheus.GaugeOpts{Name: "other", Help: "another gauge"})
	registry.MustRegister(other)
	other.Set(1)
	if registry.Unregister(other) || len(h.Events()) != 0 {
		t.Errorf("another gauge left a trace: %v", h.Events())
	}
	again := prometheus.NewGauge(prometheus.GaugeOpts{Name: "plexsphere_background_leader", Help: "the elector's"})
	defer func() {
		if recover() == nil {
			t.Error("MustRegister of a gauge that is there already: no panic")
		}
	}()
	registry.MustRegister(again)
}

func TestDoRecordsBeginAndEndAndPassesTheRestOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h leadertest.History
		elector, err := leader.New(leader.Config{
			Pool: leadertest.NewServer(t).Client("a").Pool(t), Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		boom := errors.New("boom")
		work := func(context.Context) error { return boom }

		if led, err := h.Do(t.Context(), elector, "a", work); led || err != nil || len(h.Events()) != 0 {
			t.Errorf("on a standby: %v, %v and events %v", led, err, h.Events())
		}
		go func() { _ = elector.Run(t.Context()) }()
		synctest.Wait()
		fence, leads := elector.Fence()
		if led, err := h.Do(t.Context(), elector, "a", work); !leads || !led || !errors.Is(err, boom) {
			t.Errorf("on the leader: %v, %v; want true and the error of the work", led, err)
		}
		events := h.Events()
		if len(events) != 2 || events[0].Kind != leadertest.UnitBegan || events[0].Fence != fence || fence == 0 || events[0].Unit == 0 ||
			events[1].Kind != leadertest.UnitEnded || events[1].Unit != events[0].Unit {
			t.Errorf("events %v; want a unit under fence %d and its end", events, fence)
		}
	})
}

// recordAll calls each method that records.
func recordAll(h *leadertest.History) {
	h.Started("a")
	h.LockGranted(11, "a")
	h.TermBegan("a", 7)
	ended := h.UnitBegan("a", 7)
	h.IncrementTried("a", 1)
	h.IncrementRefused("a", 1)
	h.Incremented("a", 1)
	ended()
	h.FaultBegan("a", leadertest.Partition)
	h.FaultEnded("a", leadertest.Partition)
	h.TermEnded("a")
	h.LockReleased(11)
	h.ServerDown()
	h.ServerUp()
	h.Ended("a")
	h.CounterRead(1)
}

func TestSinkAndMergeCarryAHistoryOver(t *testing.T) {
	var lines bytes.Buffer
	child := leadertest.History{Sink: &lines}
	recordAll(&child)
	if got := strings.Count(lines.String(), "\n"); got != 16 {
		t.Errorf("%d lines for 16 events:\n%s", got, lines.String())
	}
	lines.WriteString(`{"at":"2026-`) // where the child was killed
	var parent leadertest.History
	if err := parent.Merge(&lines); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(child.Events(), parent.Events()); diff != "" {
		t.Errorf("events (-recorded +merged):\n%s", diff)
	}
	for _, e := range parent.Events() {
		if time.Since(e.At) > time.Minute || e.Kind == "" {
			t.Errorf("event of no moment or kind: %+v", e)
		}
	}
	if report, err := parent.Check(leadertest.Config{}); err != nil || report.Terms != 1 || report.Increments != 1 {
		t.Errorf("Check = %+v, %v", report, err)
	}
}

func TestMergeRefusesWhatIsNoEvent(t *testing.T) {
	for input, want := range map[string]string{
		"hello\n":                              "line 1",
		"{}\n":                                 "line 1 has no moment",
		`{"at":"2026-03-01T12:00:00Z"}` + "\n": "no kind",
	} {
		var h leadertest.History
		if err := h.Merge(strings.NewReader(input)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Merge(%q) = %v, want an error with %q", input, err, want)
		}
	}
	var h leadertest.History
	if err := h.Merge(iotest.ErrReader(errors.New("boom"))); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("Merge of a broken reader = %v", err)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestCheckReportsASinkThatFailed(t *testing.T) {
	h := leadertest.History{Sink: brokenPipe{}}
	h.Started("a")
	h.Started("a")
	if _, err := h.Check(leadertest.Config{}); err == nil || !strings.Contains(err.Error(), "broken pipe") {
		t.Errorf("Check = %v, want the error of the sink", err)
	}
}

func TestRecordAndCheckFromManyGoroutines(t *testing.T) {
	var h leadertest.History
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				h.UnitBegan("a", 1)()
				_, _ = h.Check(leadertest.Config{})
			}
		})
	}
	all.Wait()
	if report, _ := h.Check(leadertest.Config{}); report.Units != 400 {
		t.Errorf("%d units, want 400", report.Units)
	}
}

func TestCheckTakesNoDefaultForGranted(t *testing.T) {
	var s story
	s.lead(0, "a", 1)
	s.lead(5, "b", 2)
	s.follow(5.5, "a")
	var h leadertest.History
	for _, e := range s {
		h.Record(e)
	}
	report, err := h.Check(leadertest.Config{CheckInterval: -1, Slack: -time.Hour})
	if report.CheckInterval != leader.DefaultCheckInterval || report.Slack != 0 || err == nil {
		t.Errorf("Check with negative durations = %+v, %v", report, err)
	}
}

func TestReportComparesWhatWasMeasuredWithWhatIsAllowed(t *testing.T) {
	s := faulty{fault: leadertest.Partition, lasts: 15, demote: 1.5, lockFree: 4, next: 4.5}.tell()
	s.workUntil(11, 14, "a", 1)
	report, _ := s.check(t, 0, 0)
	const want = `2 terms, 11 units, 0 increments, 2 grants; interval 1s, slack 0s
lock free with a healthy replica there: 1 times, at worst 0.50 of 1; work after its term: at worst 2.50
fault      count  demotion   lock free  overlap
partition  1      1.50 of 2  4.00 of 4  0.00 of 0
`
	if diff := cmp.Diff(want, report.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}
