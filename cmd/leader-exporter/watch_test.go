package main

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/api"
	"github.com/plexsphere/leader-exporter/lockkey"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// After an outage watch tells again who holds the lock, though it is the same as before; a database that is not there any more is
// unknown, not free; and nothing is told twice.
func TestWatchTellsOfTheEndOfAnOutage(t *testing.T) {
	target := api.Target{Name: "one", Locks: []lockwatch.Lock{{Name: "leader", Key: lockkey.BackgroundLeader(), Databases: []string{"a", "b"}}}}
	held := lockwatch.LockState{Lock: "leader", Datname: "a", Known: true, Holders: 1, Holder: &lockwatch.Holder{PID: 7, Visible: true}}
	free := lockwatch.LockState{Lock: "leader", Datname: "b", Known: true}
	dropped := lockwatch.LockState{Lock: "leader", Datname: "b"}
	var lines strings.Builder
	out := &printer{w: &lines, format: "text"}
	for _, poll := range []struct {
		err   error
		locks []lockwatch.LockState
	}{
		{nil, []lockwatch.LockState{held, free}},
		{nil, []lockwatch.LockState{held, free}},
		{errors.New("refused"), nil},
		{errors.New("refused"), nil},
		{nil, []lockwatch.LockState{held, free}},
		{errors.New("refused"), nil},
		{nil, []lockwatch.LockState{held, dropped}},
	} {
		snapshot := lockwatch.Snapshot{Up: poll.err == nil, Err: poll.err, At: time.Now(), Interval: time.Second, Locks: poll.locks}
		if err := out.show(snapshot.At, target.Name, target.LocksOf(snapshot, snapshot.At)); err != nil {
			t.Fatal(err)
		}
	}
	const want = `one leader a: held by backend 7
one leader b: held by nobody
one leader: unknown: refused
one leader a: held by backend 7
one leader b: held by nobody
one leader: unknown: refused
one leader a: held by backend 7
one leader b: unknown: database not found: b
`
	if got := regexp.MustCompile(`(?m)^\S+  `).ReplaceAllString(lines.String(), ""); got != want {
		t.Errorf("watch printed\n%s\nwant\n%s", got, want)
	}
}

// What is not watched any more is a line of its own, in both forms.
func TestWatchTellsWhatIsGone(t *testing.T) {
	target := api.Target{Name: "one", Locks: []lockwatch.Lock{{Name: "leader", Key: lockkey.BackgroundLeader(), Databases: []string{lockwatch.AllDatabases}}}}
	at := time.Date(2026, 12, 2, 15, 4, 5, 0, time.UTC)
	for format, want := range map[string]string{
		"text": "2026-12-02T15:04:05.000Z  one leader b: not watched any more\n",
		"json": `{"target":"one","datname":"b","lock":"leader","removed":true,"at":"2026-12-02T15:04:05Z"}` + "\n",
	} {
		var lines strings.Builder
		out := &printer{w: &lines, format: format}
		for _, datnames := range [][]string{{"a", "b"}, {"a"}} {
			lines.Reset()
			snapshot := lockwatch.Snapshot{Up: true, At: at, Interval: time.Second}
			for _, datname := range datnames {
				snapshot.Locks = append(snapshot.Locks, lockwatch.LockState{Lock: "leader", Datname: datname, Known: true})
			}
			if err := out.show(at, target.Name, target.LocksOf(snapshot, at)); err != nil {
				t.Fatal(err)
			}
		}
		if lines.String() != want {
			t.Errorf("%s: %q, want %q", format, lines.String(), want)
		}
	}
}
