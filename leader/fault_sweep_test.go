package leader_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

const (
	// swept is the CheckInterval of the replicas that are stopped at each phase of it.
	swept  = 300 * time.Millisecond
	phases = 12
	// asleep is how long a stop lasts, in intervals.
	asleep = 6
)

// sweep is an election whose leader calls Do all the time.
type sweep struct{ *reality }

// stop is one stop of the leader's process.
type stop struct {
	replica        string
	phase          int
	began, resumed time.Time
}

func newSweep(t *testing.T) *sweep {
	t.Helper()
	s := &sweep{newReality(t)}
	for i := range 3 {
		begin := time.Now()
		r := s.start(order{CheckInterval: swept, WakeOnRelease: i%2 == 1, WorkEvery: 2 * time.Millisecond})
		if i == 0 {
			s.await("")
		} else {
			s.awaitAsking(r.order.Name, begin)
		}
	}
	return s
}

// named returns the replica of that name.
func (s *sweep) named(name string) *recorded {
	return s.replicas[slices.IndexFunc(s.replicas, func(r *recorded) bool { return r.order.Name == name })]
}

// awaitAsking waits until the replica has asked for the lock since then, and was refused.
func (s *sweep) awaitAsking(name string, since time.Time) {
	s.t.Helper()
	pgtest.Eventually(s.t, patience, name+" asks for the lock in vain", func() (bool, string) {
		var asked int
		err := s.admin.QueryRow(s.t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state = 'idle'
			AND query LIKE '%pg_try_advisory_lock%' AND query_start > $2`, name, since).Scan(&asked)
		holder, held := s.watcher.holder()
		return asked > 0 && held && holder.Name != name, fmt.Sprint(asked, err, holder)
	})
}

// await waits until another replica than that one holds the lock, and returns it.
func (s *sweep) await(other string) (held holding) {
	s.t.Helper()
	pgtest.Eventually(s.t, patience, "a replica holds the lock", func() (bool, string) {
		var holds bool
		held, holds = s.watcher.holder()
		return holds && held.Name != other, fmt.Sprint(held)
	})
	return held
}

// nextCheck waits for a check of the leader and returns when its server was asked.
func (s *sweep) nextCheck(leader holding) (at time.Time) {
	s.t.Helper()
	begin := time.Now()
	pgtest.Eventually(s.t, patience, "a check of the leader", func() (bool, string) {
		var query string
		if err := s.admin.QueryRow(s.t.Context(), "SELECT query_start, query FROM pg_stat_activity WHERE pid = $1", int32(leader.PID)).
			Scan(&at, &query); err != nil {
			s.t.Fatal(err)
		}
		return query == "SELECT 1" && at.After(begin), fmt.Sprint(query, at)
	})
	return at
}

// stopAt stops the leader's process so much after a check of its, while no thread of it runs: between the look at the term
// and the first line of the work, a unit has begun already but is not on record. A stop that meets a thread there is
// undone at once, and the same phase of the next interval is as good.
func (s *sweep) stopAt(after time.Duration) (leader holding, at time.Time) {
	s.t.Helper()
	for {
		leader = s.await("")
		due := s.nextCheck(leader).Add(after)
		for time.Until(due) < 0 {
			due = due.Add(swept)
		}
		<-time.After(time.Until(due)) // the phase is a time, not a fact
		r := s.named(leader.Name)
		at = time.Now()
		r.signal(syscall.SIGSTOP)
		if s.isAtRest(r.process.PID()) {
			s.history.Record(leadertest.Event{At: at, Kind: leadertest.FaultBegan, Replica: leader.Name, Fault: leadertest.Pause})
			return leader, at
		}
		r.signal(syscall.SIGCONT)
	}
}

// isAtRest waits until the process is stopped, and reports whether each of its threads was waiting in a system call then.
func (s *sweep) isAtRest(pid int) bool {
	s.t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(threads) == 0 {
		s.t.Fatalf("process %d has no threads: %v", pid, err)
	}
	rests := true
	for _, thread := range threads {
		pgtest.Eventually(s.t, patience, "the thread is stopped", func() (bool, string) {
			stat, err := os.ReadFile(thread + "/stat")
			return os.IsNotExist(err) || strings.Contains(string(stat), ") T "), string(stat)
		})
		call, err := os.ReadFile(thread + "/syscall") // "-1 …" in the program itself, "running" on its way there
		rests = rests && err == nil && call[0] >= '0' && call[0] <= '9'
	}
	return rests
}

// pause stops the leader's process for six intervals, in which another replica takes over, and returns when the resumed one
// asks for the lock again. At every other phase the news that its session ended, after four intervals, is late, so that at its
// resumption nothing but the age of its last check tells it to do no work.
func (s *sweep) pause(phase int) stop {
	s.t.Helper()
	leader, began := s.stopAt(time.Duration(phase) * swept / phases)
	proxy := s.named(leader.Name).proxy
	if phase%2 == 1 {
		proxy.Delay(asleep / 2 * swept)
	}
	s.await(leader.Name)
	<-time.After(time.Until(began.Add(asleep * swept)))
	proxy.Delay(0)
	resumed := time.Now()
	s.history.FaultEnded(leader.Name, leadertest.Pause)
	s.named(leader.Name).signal(syscall.SIGCONT)
	s.awaitAsking(leader.Name, resumed)
	return stop{replica: leader.Name, phase: phase, began: began, resumed: resumed}
}

// end ends the replicas and judges the history.
func (s *sweep) end() leadertest.Report {
	s.t.Helper()
	s.finish()
	report, err := begun(s.history).Check(leadertest.Config{CheckInterval: swept, Slack: slack})
	if err != nil {
		s.t.Error(err)
	}
	return report
}

// begun returns the history without the time until the first term, in which a process starts and nobody can lead.
func begun(history *leadertest.History) *leadertest.History {
	events, since := history.Events(), &leadertest.History{}
	led := slices.IndexFunc(events, func(e leadertest.Event) bool { return e.Kind == leadertest.TermBegan })
	for _, e := range events {
		if led >= 0 && e.At.Before(events[led].At) {
			e.At = events[led].At
		}
		since.Record(e)
	}
	return since
}

// requireNoStaleWork fails when the stopped replica began a unit of work under its old fence after it was resumed, or when no
// other led in time. It returns after how long one did.
func (s *sweep) requireNoStaleWork(events []leadertest.Event, stopped stop) time.Duration {
	s.t.Helper()
	var fence uint64
	var next time.Time
	for _, e := range events {
		own := e.Replica == stopped.replica
		switch {
		case e.Kind == leadertest.UnitBegan && own && e.At.Before(stopped.began):
			fence = e.Fence
		case e.Kind == leadertest.TermBegan && !own && e.At.After(stopped.began) && (next.IsZero() || e.At.Before(next)):
			next = e.At
		}
	}
	units := 0
	for _, e := range events {
		if e.Kind == leadertest.UnitBegan && e.Replica == stopped.replica && e.Fence == fence && e.At.After(stopped.resumed) {
			units++
		}
	}
	if fence == 0 || units > 0 {
		s.t.Errorf("phase %d: %s began %d units of work under its old fence %d after it was resumed", stopped.phase, stopped.replica, units, fence)
	}
	took := next.Sub(stopped.began)
	if next.IsZero() || took > 5*swept+slack {
		s.t.Errorf("phase %d: another replica led after %v, want at most 5 intervals of %v", stopped.phase, took, swept)
	}
	return took
}

// R9, R21, R22: a leader's process that is stopped for six intervals, at whichever moment of its interval, begins no work under
// its old fence when it goes on, although it asks for some all the time, and another replica leads after five at most.
func TestFaultSweepOfAStopOverAnIntervalBeginsNoStaleWork(t *testing.T) {
	s := newSweep(t)
	stops := make([]stop, phases)
	for phase := range stops {
		stops[phase] = s.pause(phase)
	}
	report := s.end()
	events, worst := s.history.Events(), time.Duration(0)
	for _, stopped := range stops {
		worst = max(worst, s.requireNoStaleWork(events, stopped))
	}
	fmt.Printf("sweep: %d stops of %d intervals: next leader after %.2f intervals at worst\n%v",
		phases, asleep, worst.Seconds()/swept.Seconds(), report)
}
