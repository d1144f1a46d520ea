package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/history"
	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// onLine is a handler of logs that is called with each message, and waited for.
type onLine func(message string)

func (onLine) Enabled(context.Context, slog.Level) bool { return true }
func (h onLine) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h onLine) WithGroup(string) slog.Handler          { return h }

func (h onLine) Handle(_ context.Context, r slog.Record) error {
	h(r.Message)
	return nil
}

// newTestFleet returns a fleet that follows the file and has loaded nothing yet, until the test ends, and its recorder. load calls watching before it runs a watcher.
func newTestFleet(t *testing.T, file testFile, store *history.Store, watching func()) *fleet {
	t.Helper()
	recorder := history.NewRecorder(store, slog.New(slog.DiscardHandler))
	stop := runRecorder(recorder)
	logger := onLine(func(message string) {
		if message == "watching" {
			watching()
		}
	})
	f := newFleet(options{configFile: string(file), pollInterval: 20 * time.Millisecond, maxDutyCycle: 1}, slog.New(logger), recorder)
	t.Cleanup(func() {
		f.close()
		stop()
	})
	return f
}

func openHistory(t *testing.T, cfg history.Config) *history.Store {
	t.Helper()
	store, err := history.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func (f *fleet) mustLoad(t *testing.T) {
	t.Helper()
	if err := f.load(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// names returns those of the targets that a request is told of.
func (f *fleet) names() (names []string) {
	for _, target := range f.targets() {
		names = append(names, target.Name)
	}
	return names
}

// When a new watcher begins, its target is there, one that is removed is not, and the watcher that it replaces has ended: here one that
// waits for a server which does not answer. A removed target's term is written as it was last seen.
func TestReloadShowsNoTargetThatIsRemovedAndReplacesOnlyWhatHasEnded(t *testing.T) {
	db := pgtest.Database(t)
	hold(t, db.DSN)
	paused := pgtest.Cluster(t, pgserver.Options{})
	target := func(name, dsn, label string) string {
		return fmt.Sprintf("  - {name: %s, dsn: '%s', labels: {version: %s}}\n", name, dsn, label)
	}
	file := newTestFile(t, "targets:\n"+target("goes", db.DSN, "a")+target("changes", paused.DSN("postgres"), "a"))
	store := openHistory(t, history.Config{Path: filepath.Join(t.TempDir(), "history")})
	atBegin := func() {}
	f := newTestFleet(t, file, store, func() { atBegin() })
	f.mustLoad(t)
	old := f.members["changes"]
	pgtest.Eventually(t, patience, "both are up", func() (bool, string) {
		return f.members["goes"].watcher.Snapshot().Up && old.watcher.Snapshot().Up, ""
	})
	begun := f.members["goes"].watcher.Snapshot().Locks[0].Term
	pgtest.Eventually(t, patience, "the term is seen again, which is not written yet", func() (bool, string) {
		return f.members["goes"].watcher.Snapshot().Locks[0].Term.LastSeen.After(begun.LastSeen), ""
	})
	if err := paused.Pause(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := paused.Resume(); err != nil {
			t.Error(err)
		}
	}()
	asked := make(map[string]int)
	atBegin = func() {
		asked["begins"]++
		if names := f.names(); !slices.Equal(names, []string{"changes", "comes"}) {
			t.Errorf("a request is told of %q as a new watcher begins", names)
		}
		select {
		case <-old.ended:
		default:
			t.Error("a watcher begins before the one that it replaces has ended")
		}
	}
	last := f.members["goes"].watcher
	file.write(t, "targets:\n"+target("comes", db.DSN, "a")+target("changes", paused.DSN("postgres"), "b"))
	f.mustLoad(t)
	if asked["begins"] != 2 {
		t.Errorf("%d watchers began, want 2", asked["begins"])
	}
	seen := last.Snapshot().Locks[0].Term.LastSeen
	pgtest.Eventually(t, patience, "what the removed target saw last is written", func() (bool, string) {
		page, err := store.Terms(history.Query{Target: "goes"})
		return err == nil && len(page.Terms) == 1 && page.Terms[0].LastSeen.Equal(seen), fmt.Sprintf("%+v, %v; want %v", page, err, seen)
	})
}

// Whoever reads that a target was removed, and asks at once, is not told of it.
func TestRemovedTargetIsGoneWhenItsEventArrives(t *testing.T) {
	db := pgtest.Database(t)
	one := fmt.Sprintf("targets:\n  - {name: one, dsn: '%s'}\n", db.DSN)
	two := one + fmt.Sprintf("  - {name: two, dsn: '%s'}\n", db.DSN)
	file := newTestFile(t, two)
	e := startExporter(t, "--config.file="+string(file), "--web.enable-lifecycle")
	events, _ := eventStream(t, e.url)
	for range 20 {
		file.write(t, one)
		reloaded := make(chan struct{})
		go func() {
			defer close(reloaded)
			e.reload(t)
		}()
		awaitEvent(t, events, "removed", `{"target":"two"}`)
		body, err := get(t.Context(), e.url+"/api/v1/locks")
		if err != nil || strings.Contains(body, `"two"`) {
			t.Errorf("after the event: %v\n%s", err, body)
		}
		<-reloaded
		file.write(t, two)
		e.reload(t)
	}
}

// A write of the history that does not end holds up no reload, and the new watcher goes on with what the old one saw last.
func TestHistoryThatHangsHoldsUpNoReload(t *testing.T) {
	db := pgtest.Database(t)
	released := make(chan struct{})
	store := openHistory(t, history.Config{MaxTerms: 1, Logger: slog.New(onLine(func(string) { <-released }))}) // it logs in the midst of a write
	target := "targets: [{name: one, dsn: '%s', labels: {version: %s}}]\n"
	file := newTestFile(t, fmt.Sprintf(target, db.DSN, "a"))
	f := newTestFleet(t, file, store, func() {})
	t.Cleanup(func() { close(released) })
	f.mustLoad(t)
	watched := func() uint32 { // the pid of the holder
		if s := f.members["one"].watcher.Snapshot(); len(s.Locks) == 1 && s.Locks[0].Term != nil {
			return s.Locks[0].Term.Holder.PID
		}
		return 0
	}
	var conn *pgx.Conn
	for range 3 { // the second one is beyond MaxTerms
		if conn != nil {
			if err := conn.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		conn = hold(t, db.DSN)
		pgtest.Eventually(t, patience, "the holder is seen", func() (bool, string) { return watched() == conn.PgConn().PID(), "" })
	}
	begun := f.members["one"].watcher.Snapshot().Locks[0].Term
	file.write(t, fmt.Sprintf(target, db.DSN, "b"))
	f.mustLoad(t)
	pgtest.Eventually(t, patience, "the term goes on", func() (bool, string) {
		return watched() == begun.Holder.PID && f.members["one"].watcher.Snapshot().Locks[0].Term.Holder.TermStart.Equal(begun.Holder.TermStart), ""
	})
}
