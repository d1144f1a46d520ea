package leadertest_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
	"github.com/plexsphere/leader-exporter/lockkey"
)

// chaos is an election of real electors in a bubble, all of whose events go to a history.
type chaos struct {
	leadertest.History
	server  *leadertest.Server
	random  func(n int) int
	running sync.WaitGroup
}

const (
	interval = leader.DefaultCheckInterval
	look     = 20 * time.Millisecond // between two looks at the holder
)

// upTo returns a random duration below n intervals.
func (c *chaos) upTo(n int) time.Duration {
	return time.Duration(c.random(n*int(interval/time.Millisecond))) * time.Millisecond
}

// watch records who holds the lock.
func (c *chaos) watch(ctx context.Context) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	var held uint32
	for ctx.Err() == nil {
		client, pid, _ := c.server.Holder(lockkey.BackgroundLeader())
		if pid != held && held != 0 {
			c.LockReleased(held)
		}
		if pid != held && pid != 0 {
			c.LockGranted(pid, client)
		}
		held = pid
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// replica runs an elector, a worker, and what happens to them.
func (c *chaos) replica(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	client := c.server.Client(name)
	elector, err := leader.New(leader.Config{
		Pool: client.Pool(t), Logger: slog.New(slog.DiscardHandler), Registerer: c.Registerer(name),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.running.Go(func() {
		everySecond(ctx, elector, func() {
			_, _ = c.Do(ctx, elector, name, func(context.Context) error { return nil })
		})
	})
	c.running.Go(func() {
		for ctx.Err() == nil {
			life, stop := context.WithCancel(ctx)
			var run sync.WaitGroup
			c.Started(name)
			run.Go(func() { _ = elector.Run(life) })
			for range 1 + c.random(6) {
				sleep(ctx, c.upTo(12))
				c.harm(ctx, client, name)
			}
			if ctx.Err() == nil {
				c.FaultBegan(name, leadertest.CleanStop)
			}
			stop()
			run.Wait()
			c.Ended(name)
			sleep(ctx, c.upTo(3))
		}
	})
}

// harm does one thing to the replica.
func (c *chaos) harm(ctx context.Context, client *leadertest.Client, name string) {
	if ctx.Err() != nil {
		return
	}
	holder, pid, _ := c.server.Holder(lockkey.BackgroundLeader())
	switch c.random(3) {
	case 0:
		c.FaultBegan(name, leadertest.Partition)
		client.Cut()
		sleep(ctx, c.upTo(8))
		c.FaultEnded(name, leadertest.Partition)
		client.Heal()
	case 1:
		if holder == name {
			c.Record(leadertest.Event{Kind: leadertest.FaultBegan, Replica: name, Fault: leadertest.Terminated, PID: pid})
			c.server.Terminate(pid)
		}
	case 2:
		if holder == name {
			c.FaultBegan(name, leadertest.Isolated)
			client.Cut()
			c.server.Terminate(pid)
			sleep(ctx, c.upTo(4))
			c.FaultEnded(name, leadertest.Isolated)
			client.Heal()
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// elect runs replicas for that long and returns the history.
func elect(t *testing.T, seed uint64, replicas int, length time.Duration) *leadertest.History {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	c := &chaos{server: leadertest.NewServer(t), random: func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}}
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	c.running.Go(func() { c.watch(ctx) })
	for _, name := range []string{"a", "b", "c"}[:replicas] {
		c.replica(t, ctx, name)
	}
	for ctx.Err() == nil {
		sleep(ctx, 20*interval+c.upTo(20))
		c.ServerDown()
		c.server.Stop()
		sleep(ctx, c.upTo(3))
		c.server.Start()
		c.ServerUp()
	}
	c.running.Wait()
	return &c.History
}

// Real electors that are cut off, terminated and stopped at random keep every promise, and the history shows that there was
// something to keep.
func TestElectionUnderFaultsKeepsItsPromises(t *testing.T) {
	seed := rand.Uint64()
	for replicas := 1; replicas <= 3; replicas++ {
		synctest.Test(t, func(t *testing.T) {
			h := elect(t, seed, replicas, 2*time.Hour)
			report, err := h.Check(leadertest.Config{Slack: look})
			t.Logf("%d replicas, seed %d:\n%v", replicas, seed, report)
			if err != nil {
				t.Error(err)
			}
			if report.Terms < 20 || report.Grants < 20 || report.Gaps < 20 || report.Units < 1000 || len(report.Faults) != 5 {
				t.Error("too little happened to judge by")
			}
		})
	}
}
