package api_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/api"
	"github.com/plexsphere/leader-exporter/history"
	"github.com/plexsphere/leader-exporter/internal/logtest"
	"github.com/plexsphere/leader-exporter/lockkey"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// source is a Source whose snapshot the test sets.
type source struct {
	mu       sync.Mutex
	snapshot lockwatch.Snapshot
}

func (s *source) Snapshot() lockwatch.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshot
}

// rig is an API over targets of the test's own.
type rig struct {
	store   *history.Store
	events  *api.Events
	logs    *logtest.Lines
	targets []api.Target
	handler http.Handler
}

func newRig(t *testing.T, targets ...string) *rig {
	t.Helper()
	store, err := history.Open(history.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	logs := &logtest.Lines{}
	r := &rig{store: store, events: api.NewEvents(slog.New(logs)), logs: logs}
	for _, name := range targets {
		r.targets = append(r.targets, api.Target{
			Name: name, Labels: map[string]string{"deployment": name}, Source: &source{},
			Locks: []lockwatch.Lock{{Name: "leader", Key: lockkey.BackgroundLeader()}},
		})
	}
	r.handler = api.New(api.Config{
		Targets: func() []api.Target { return r.targets }, History: store, Events: r.events, Version: "1.2.3", Logger: slog.New(slog.DiscardHandler),
	})
	return r
}

// poll gives the target a snapshot that has just been taken, and tells of it as a watcher would.
func (r *rig) poll(t *testing.T, target string, s lockwatch.Snapshot) {
	t.Helper()
	s.At, s.Interval, s.Up = time.Now(), time.Second, s.Err == nil
	for _, known := range r.targets {
		if known.Name == target {
			from := known.Source.(*source)
			from.mu.Lock()
			from.snapshot = s
			from.mu.Unlock()
			if err := r.store.Put(target, s.Changes...); err != nil {
				t.Fatal(err)
			}
			r.events.Note(known, s)
		}
	}
}

// heldBy is the snapshot of a lock that a backend holds; begun says whether this poll saw the term begin.
func heldBy(pid uint32, name string, start time.Time, begun bool) lockwatch.Snapshot {
	age := 1500 * time.Millisecond
	holder := lockwatch.Holder{
		PID: pid, ApplicationName: name, Usename: "api", ClientAddr: "10.0.0.7", BackendStart: start.Add(-time.Hour), TermStart: start,
		HeartbeatAge: age, Visible: true, Foreign: name == "psql",
	}
	term := lockwatch.Term{Datname: "db", Lock: "leader", Holder: holder, After: start.Add(-time.Second), LastSeen: start}
	s := lockwatch.Snapshot{
		LastSuccess: time.Now(), ServerTime: time.Now(), ServerLocks: 12,
		Locks: []lockwatch.LockState{{Datname: "db", Lock: "leader", Known: true, Holders: 1, Waiters: 2, Holder: &holder, Term: &term, Terms: 1}},
	}
	if begun {
		s.Changes = []lockwatch.Term{term}
	}
	return s
}

// free is the snapshot of a lock that nobody holds, after these changes.
func free(changes ...lockwatch.Term) lockwatch.Snapshot {
	return lockwatch.Snapshot{Locks: []lockwatch.LockState{{Datname: "db", Lock: "leader", Known: true}}, Changes: changes}
}

// get asks the handler.
func (r *rig) get(path string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	r.handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	return recorder
}
