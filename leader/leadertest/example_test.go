package leadertest_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// A test of a loop of one's own: the work moves to the other replica when the network of the first is cut. Two minutes of
// election take milliseconds.
func Example() {
	var t *testing.T // what go test gives to the test
	workFollowsTheLeader(t)
}

// workFollowsTheLeader is the body of the test.
func workFollowsTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := leadertest.NewServer(t)
		a, b := server.Client("a"), server.Client("b")
		passesOfA := startWorker(t, a)
		synctest.Wait() // replica a leads
		passesOfB := startWorker(t, b)

		time.Sleep(time.Minute + time.Second/2) // fake time, as all of it here
		if passesOfA.Load() != 60 || passesOfB.Load() != 0 {
			t.Errorf("%d and %d passes in a minute, want 60 and none", passesOfA.Load(), passesOfB.Load())
		}

		a.Cut()
		time.Sleep(2 * leader.DefaultCheckInterval)
		before := passesOfA.Load()
		time.Sleep(time.Minute)
		if passesOfA.Load() != before || passesOfB.Load() == 0 {
			t.Errorf("%d and %d passes in the minute after the cut, want those of b alone", passesOfA.Load()-before, passesOfB.Load())
		}
	})
}

// startWorker runs a replica that makes a pass a second while it leads, and returns their number.
func startWorker(t *testing.T, client *leadertest.Client) *atomic.Int64 {
	t.Helper()
	elector, err := leader.New(leader.Config{Pool: client.Pool(t), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	var passes atomic.Int64
	go func() { _ = elector.Run(t.Context()) }()
	go everySecond(t.Context(), elector, func() { passes.Add(1) })
	return &passes
}

// everySecond is the loop under test.
func everySecond(ctx context.Context, elector *leader.Elector, pass func()) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_, _ = elector.Do(ctx, func(context.Context) error {
				pass()
				return nil
			})
		}
	}
}
