package leader_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

const (
	// measured is the CheckInterval of replicas whose times are measured.
	measured = 500 * time.Millisecond
	// slack is what may come on top of each bound, beside the longest time in which the server kept the watcher waiting.
	slack = 250 * time.Millisecond
)

// reality is an election of processes on a real server.
type reality struct {
	t        *testing.T
	server   *pgserver.Server
	history  *leadertest.History
	watcher  *lockWatcher
	admin    *pgxpool.Pool
	replicas []*recorded
}

// newReality starts a server and who watches its lock.
func newReality(t *testing.T) *reality {
	t.Helper()
	// What the counter was told to be committed must survive a crash of the server.
	server := pgtest.Cluster(t, pgserver.Options{Settings: map[string]string{"synchronous_commit": "on"}})
	dsn := server.DSN("postgres")
	if err := server.Exec(t.Context(), "postgres", "CREATE TABLE counters AS SELECT 0::bigint AS value, 0::bigint AS fence"); err != nil {
		t.Fatal(err)
	}
	history := &leadertest.History{}
	return &reality{
		t: t, server: server, history: history, watcher: watchLock(t, history, dsn), admin: (&pgtest.DB{DSN: dsn}).Pool(t),
	}
}

// start starts one more replica on that order, under a name of its own.
func (s *reality) start(o order) *recorded {
	s.t.Helper()
	o.Name = fmt.Sprint("replica", len(s.replicas))
	r := newRecorded(s.t, s.history, s.server, o)
	s.replicas = append(s.replicas, r)
	r.start()
	return r
}

// startMeasured starts n replicas whose times are measured; wakes says which of them have WakeOnRelease.
func (s *reality) startMeasured(n int, wakes func(i int) bool) {
	s.t.Helper()
	for i := range n {
		s.start(order{CheckInterval: measured, WakeOnRelease: wakes(i), Cooldown: 3 * measured, WorkEvery: measured / 10})
	}
}

// leader returns the number of the replica that was last seen to hold the lock, or -1.
func (s *reality) leader() int {
	holder, _ := s.watcher.holder()
	return slices.IndexFunc(s.replicas, func(r *recorded) bool { return r.order.Name == holder.Name })
}

// finish ends the replicas and reads the counter.
func (s *reality) finish() {
	s.t.Helper()
	for _, r := range s.replicas {
		r.kill()
	}
	var value int64
	if err := s.admin.QueryRow(s.t.Context(), "SELECT value FROM counters").Scan(&value); err != nil {
		s.t.Fatal(err)
	}
	s.history.CounterRead(value)
}

// check finishes the election of measured replicas and judges its history.
func (s *reality) check() leadertest.Report {
	s.t.Helper()
	s.finish()
	report, err := s.history.Check(leadertest.Config{CheckInterval: measured, Slack: slack + s.watcher.slowest()})
	if err != nil {
		s.t.Error(err)
	}
	return report
}
