package api_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plexsphere/leader-exporter/api"
)

// What is said of a lock changes with its holder and its verdict, and not with ages.
func TestChangesLeaveOutWhatGrowsByItself(t *testing.T) {
	var c api.Changes
	age, older := 1.0, 2.0
	lock := api.Lock{Target: "one", Lock: "leader", Datname: "db", Verdict: api.Held, Holder: &api.Holder{PID: 7, HeartbeatAgeSeconds: &age}}
	if got, _ := c.Of("one", []api.Lock{lock}); len(got) != 1 {
		t.Errorf("the first time: %v", got)
	}
	lock.Holder = &api.Holder{PID: 7, HeartbeatAgeSeconds: &older}
	if got, _ := c.Of("one", []api.Lock{lock}); len(got) != 0 {
		t.Errorf("an older heartbeat: %v", got)
	}
	lock.Holder = &api.Holder{PID: 8}
	if got, _ := c.Of("one", []api.Lock{lock}); len(got) != 1 {
		t.Errorf("another holder: %v", got)
	}
	c.Forget("one")
	if got, _ := c.Of("one", []api.Lock{lock}); len(got) != 1 {
		t.Errorf("after it was forgotten: %v", got)
	}
}

// What is not watched any more is told once. What is not known for a while is watched still.
func TestChangesTellWhatIsNotWatchedAnyMore(t *testing.T) {
	lock := func(name, datname string) api.Lock {
		if datname == "" {
			return api.Lock{Target: "one", Lock: name, Verdict: api.Unknown, Error: "refused"}
		}
		return api.Lock{Target: "one", Lock: name, Datname: datname, Verdict: api.Unheld}
	}
	var c api.Changes
	for _, step := range []struct {
		name    string
		locks   []api.Lock
		changed string // names of locks, each with its database
		removed []api.Removed
	}{
		{"the first time", []api.Lock{lock("a", "x"), lock("a", "y"), lock("b", "x")}, "a/x a/y b/x", nil},
		{"nothing is known", []api.Lock{lock("a", ""), lock("b", "")}, "a/ b/", nil},
		{"nothing is known still", []api.Lock{lock("a", ""), lock("b", "")}, "", nil},
		{"known again, without a database", []api.Lock{lock("a", "x"), lock("b", "x")}, "a/x b/x", []api.Removed{{Target: "one", Datname: "y", Lock: "a"}}},
		{"a lock is gone", []api.Lock{lock("a", "x")}, "", []api.Removed{{Target: "one", Datname: "x", Lock: "b"}}},
		{"a new one, never seen", []api.Lock{lock("a", "x"), lock("c", "")}, "c/", nil},
		{"it is gone", []api.Lock{lock("a", "x")}, "", []api.Removed{{Target: "one", Lock: "c"}}},
		{"nothing is known of all that is left", []api.Lock{lock("a", "")}, "a/", nil},
		{"it goes with what it had", nil, "", []api.Removed{{Target: "one", Lock: "a"}, {Target: "one", Datname: "x", Lock: "a"}}},
		{"nothing", nil, "", nil},
	} {
		changed, removed := c.Of("one", step.locks)
		var names []string
		for _, lock := range changed {
			names = append(names, lock.Lock+"/"+lock.Datname)
		}
		if got := strings.Join(names, " "); got != step.changed {
			t.Errorf("%s: changed %q, want %q", step.name, got, step.changed)
		}
		if diff := cmp.Diff(step.removed, removed); diff != "" {
			t.Errorf("%s: removed (-want +got):\n%s", step.name, diff)
		}
	}
	for want, gone := range map[string]api.Removed{
		"one: not watched any more":            {Target: "one"},
		"one leader: not watched any more":     {Target: "one", Lock: "leader"},
		"one leader a b: not watched any more": {Target: "one", Lock: "leader", Datname: "a b"},
	} {
		if got := gone.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Readers are told of it, if their filter lets it pass.
func TestEventsTellWhatIsNotWatchedAnyMore(t *testing.T) {
	r := newRig(t, "one")
	r.poll(t, "one", free())
	base := r.serve(t)
	all, same, other := connect(t, base, "", ""), connect(t, base, "?datname=db", ""), connect(t, base, "?datname=other", "")
	all.require(t, "reset", "lock one unheld")
	same.require(t, "reset", "lock one unheld")
	other.require(t, "reset")
	gone := free()
	gone.Locks = nil
	r.poll(t, "one", gone)
	r.events.Remove("one")
	for _, s := range []*stream{all, same} {
		m, _ := s.next(t)
		if diff := cmp.Diff(map[string]any{"target": "one", "datname": "db", "lock": "leader"}, m.data); m.name != "removed" || diff != "" {
			t.Errorf("event %s (-want +got):\n%s", m.name, diff)
		}
	}
	for _, s := range []*stream{all, same, other} {
		m, _ := s.next(t)
		if diff := cmp.Diff(map[string]any{"target": "one"}, m.data); m.name != "removed" || diff != "" {
			t.Errorf("event %s (-want +got):\n%s", m.name, diff)
		}
	}
}
