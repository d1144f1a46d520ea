package api_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plexsphere/leader-exporter/api"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// fields returns those of the names that the object has.
func fields(object map[string]any, names ...string) map[string]any {
	found := make(map[string]any)
	for _, name := range names {
		if value, ok := object[name]; ok {
			found[name] = value
		}
	}
	return found
}

// objects asks for a list of an answer.
func (r *rig) objects(t *testing.T, path, list string) []map[string]any {
	t.Helper()
	var answer map[string]json.RawMessage
	var objects []map[string]any
	err := json.Unmarshal(r.get(path).Body.Bytes(), &answer)
	if err := errors.Join(err, json.Unmarshal(answer[list], &objects)); err != nil {
		t.Fatal(err)
	}
	return objects
}

// What is not known of locks and targets is left out, not told as 0.
func TestLocksLeaveOutWhatIsNotKnown(t *testing.T) {
	r := newRig(t, "new", "free", "down")
	polled := free()
	polled.LastSuccess = time.Now()
	r.poll(t, "free", polled)
	polled.Err, polled.InRecovery, polled.ServerLocks = errors.New("refused"), true, 12
	r.poll(t, "down", polled)
	for i, want := range []map[string]any{
		{"verdict": "unknown"}, {"verdict": "unheld", "holders": 0.0, "waiters": 0.0}, {"verdict": "unknown"},
	} {
		if diff := cmp.Diff(want, fields(r.objects(t, "/api/v1/locks", "locks")[i], "verdict", "holders", "waiters")); diff != "" {
			t.Errorf("lock %d (-want +got):\n%s", i, diff)
		}
	}
	for i, want := range []map[string]any{
		{"up": false}, {"up": true, "in_recovery": false, "server_locks": 0.0}, {"up": false, "in_recovery": true, "server_locks": 12.0},
	} {
		if diff := cmp.Diff(want, fields(r.objects(t, "/api/v1/locks", "targets")[i], "up", "in_recovery", "server_locks")); diff != "" {
			t.Errorf("target %d (-want +got):\n%s", i, diff)
		}
	}
}

// Details that the role cannot see are left out, everywhere; those that it sees are told, empty or not.
func TestHoldersLeaveOutWhatTheRoleCannotSee(t *testing.T) {
	r := newRig(t, "one")
	names := []string{"visible", "application_name", "usename", "client_addr"}
	for _, tc := range []struct {
		holder lockwatch.Holder
		want   map[string]any
		words  string
		page   string
	}{
		{
			lockwatch.Holder{PID: 7},
			map[string]any{"visible": false},
			"backend 7, of which the role sees no more", "User not visible Client not visible",
		},
		{
			lockwatch.Holder{PID: 7, Visible: true, Usename: "api"},
			map[string]any{"visible": true, "application_name": "", "usename": "api", "client_addr": ""},
			"backend 7, api", "User api Client unix socket",
		},
	} {
		tc.holder.TermStart = time.Now()
		s := heldBy(7, "", tc.holder.TermStart, true)
		s.Locks[0].Holder, s.Changes[0].Holder = &tc.holder, tc.holder
		r.poll(t, "one", s)
		lock := r.objects(t, "/api/v1/locks", "locks")[0]
		if diff := cmp.Diff(tc.want, fields(lock["holder"].(map[string]any), names...)); diff != "" {
			t.Errorf("holder (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(tc.want, fields(r.objects(t, "/api/v1/terms", "terms")[0], names...)); diff != "" {
			t.Errorf("term (-want +got):\n%s", diff)
		}
		if got := r.targets[0].LocksOf(r.targets[0].Source.Snapshot(), time.Now())[0].Holder.String(); got != tc.words {
			t.Errorf("in words %q, want %q", got, tc.words)
		}
		if got := pageText(r.get("/")); !strings.Contains(got, tc.page) {
			t.Errorf("the page lacks %q:\n%s", tc.page, got)
		}
	}
}

// A snapshot that is too old, or of a standby, tells nothing of locks; nor is a database told that is not there.
func TestLocksSayWhyTheyAreUnknown(t *testing.T) {
	now := time.Now()
	target := api.Target{Name: "one", Locks: []lockwatch.Lock{{Name: "leader", Databases: []string{"db", "gone"}}}}
	for want, change := range map[string]func(*lockwatch.Snapshot){
		"held  | unknown database not found: gone":                                                       func(*lockwatch.Snapshot) {},
		"unknown the last poll ended 4s ago":                                                             func(s *lockwatch.Snapshot) { s.At = now.Add(-4 * time.Second) },
		"unknown the server is in recovery (a hot standby): it cannot tell who holds the primary's lock": func(s *lockwatch.Snapshot) { s.InRecovery = true },
	} {
		s := heldBy(7, "a", now, false)
		s.At, s.Up, s.Interval = now, true, time.Second
		change(&s)
		var got []string
		for _, lock := range target.LocksOf(s, now) {
			got = append(got, string(lock.Verdict)+" "+lock.Error)
			if lock.Verdict == api.Unknown && (lock.Holder != nil || lock.Holders != nil) {
				t.Errorf("%s: holder %v", lock.Error, lock.Holder)
			}
		}
		if text := strings.Join(got, " | "); text != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
}
