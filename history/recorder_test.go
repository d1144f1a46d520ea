package history_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plexsphere/leader-exporter/history"
	"github.com/plexsphere/leader-exporter/internal/logtest"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// record runs a Recorder on the store in a bubble, which begins in the year 2000, until the returned function is called.
func record(t *testing.T, store *history.Store) (r *history.Recorder, logs *logtest.Lines, stop func()) {
	t.Helper()
	logs = &logtest.Lines{}
	r = history.NewRecorder(store, slog.New(logs))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	return r, logs, func() {
		cancel()
		<-done
	}
}

// goingOn is a term that goes on, last seen so long after its start.
func goingOn(start time.Time, seen time.Duration) lockwatch.Term {
	return lockwatch.Term{
		Datname: "db", Lock: "leader", LastSeen: start.Add(seen),
		Holder: lockwatch.Holder{PID: 7, TermStart: start, BackendStart: start},
	}
}

// snapshot shows a term that goes on, and changes.
func snapshot(on *lockwatch.Term, changes ...lockwatch.Term) lockwatch.Snapshot {
	return lockwatch.Snapshot{Up: true, Locks: []lockwatch.LockState{{Datname: "db", Lock: "leader", Known: true, Term: on}}, Changes: changes}
}

// lastSeen returns when the only term of the store was last seen, how long after its start, and whether it has ended.
func lastSeen(t *testing.T, store *history.Store) (seen time.Duration, ended bool) {
	t.Helper()
	page, err := store.Terms(history.Query{})
	if err != nil || len(page.Terms) != 1 {
		t.Fatalf("%d terms, %v; want one", len(page.Terms), err)
	}
	term := page.Terms[0]
	return term.LastSeen.Sub(term.Holder.TermStart), !term.End.IsZero()
}

// A change is written at once, when a term was last seen once a minute and at the stop, and its end for good.
func TestRecorderWritesChangesAtOnceAndSightsNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t, history.Config{Path: filepath.Join(t.TempDir(), "history")})
		r, logs, stop := record(t, store)
		start := time.Now()
		begun := goingOn(start, 0)
		r.Note("one", snapshot(&begun, begun))
		synctest.Wait()
		if seen, _ := lastSeen(t, store); seen != 0 {
			t.Errorf("last seen after %v at the begin", seen)
		}
		for range 59 {
			time.Sleep(time.Second)
			on := goingOn(start, time.Since(start))
			r.Note("one", snapshot(&on))
		}
		synctest.Wait()
		if seen, _ := lastSeen(t, store); seen != 0 {
			t.Errorf("last seen after %v, before a checkpoint", seen)
		}
		if open, err := r.OpenTerms("one"); err != nil || len(open) != 1 || open[0].LastSeen.Sub(start) != 59*time.Second {
			t.Errorf("OpenTerms = %+v, %v; want what was noted", open, err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if seen, _ := lastSeen(t, store); seen != 59*time.Second {
			t.Errorf("last seen after %v, after a checkpoint", seen)
		}
		on := goingOn(start, 70*time.Second)
		r.Note("one", snapshot(&on))
		stop()
		if seen, ended := lastSeen(t, store); seen != 70*time.Second || ended {
			t.Errorf("last seen after %v, ended %v, after the stop", seen, ended)
		}
		r, _, stop = record(t, store)
		on.End = on.LastSeen.Add(time.Second)
		r.Note("one", snapshot(nil, on))
		synctest.Wait()
		if _, ended := lastSeen(t, store); !ended {
			t.Error("the end was not written")
		}
		if open, err := r.OpenTerms("one"); err != nil || len(open) != 0 {
			t.Errorf("OpenTerms = %+v, %v; want none", open, err)
		}
		stop()
		if lines := logs.With(""); len(lines) != 0 {
			t.Errorf("log %q", lines)
		}
	})
}

// A target that is forgotten leaves its term as it was last seen.
func TestForgottenTargetLeavesItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t, history.Config{})
		r, _, stop := record(t, store)
		start := time.Now()
		begun, on := goingOn(start, 0), goingOn(start, 5*time.Second)
		r.Note("one", snapshot(&begun, begun))
		r.Note("one", snapshot(&on))
		r.Forget("one")
		synctest.Wait()
		if seen, ended := lastSeen(t, store); seen != 5*time.Second || ended {
			t.Errorf("last seen after %v, ended %v", seen, ended)
		}
		stop()
	})
}

// While the store refuses, terms wait, the newest of each, and the log says so once; nothing waits without bound. Old terms
// are deleted every hour.
func TestRecorderOutlastsAStoreThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "history")
		if err := openStore(t, history.Config{Path: path}).Close(); err != nil {
			t.Fatal(err)
		}
		store, err := history.OpenReadOnly(path)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		r, logs, stop := record(t, store)
		start := time.Now()
		for i := range 10_010 {
			term := goingOn(start.Add(time.Duration(i)*time.Millisecond), 0)
			r.Note("one", snapshot(nil, term))
		}
		time.Sleep(time.Minute)
		if open, err := r.OpenTerms("one"); err != nil || len(open) != 10_000 {
			t.Errorf("%d terms wait, %v; want 10000", len(open), err)
		}
		stop()
		if lines := logs.With("the history cannot be written"); len(lines) != 1 {
			t.Errorf("log %q, want one line", lines)
		}
		if lines := logs.With("terms were lost"); len(lines) == 0 {
			t.Errorf("log %q, want the loss", logs.With(""))
		}
	})
}

// What is older than the retention goes within the hour.
func TestRecorderExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t, history.Config{Retention: 30 * time.Minute})
		r, logs, stop := record(t, store)
		ended := goingOn(time.Now(), time.Second)
		ended.End = ended.LastSeen
		r.Note("one", snapshot(nil, ended))
		synctest.Wait()
		lastSeen(t, store)
		time.Sleep(time.Hour)
		synctest.Wait()
		if page, err := store.Terms(history.Query{}); err != nil || len(page.Terms) != 0 {
			t.Errorf("%d terms after an hour, %v", len(page.Terms), err)
		}
		stop()
		if lines := logs.With("old terms deleted terms=1"); len(lines) != 1 {
			t.Errorf("log %q", logs.With(""))
		}
	})
}
