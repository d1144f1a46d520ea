package history_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
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
		if open := r.OpenTerms("one"); len(open) != 1 || open[0].LastSeen.Sub(start) != 59*time.Second {
			t.Errorf("OpenTerms = %+v; want what was noted", open)
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
		if open := r.OpenTerms("one"); len(open) != 0 {
			t.Errorf("OpenTerms = %+v; want none", open)
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
		if waiting := all(t, r, history.Query{Limit: 1000}); len(waiting) != 10_000 {
			t.Errorf("%d terms wait; want 10000", len(waiting))
		}
		stop()
		if lines := logs.With("the history did not take them before the stop terms=10000"); len(lines) != 1 {
			t.Errorf("log %q, want how many terms were lost at the stop", logs.With("lost"))
		}
		if lines := logs.With("the history cannot be written"); len(lines) != 1 {
			t.Errorf("log %q, want one line", lines)
		}
		if lines := logs.With("terms were lost: too many"); len(lines) == 0 {
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

// hanging is a handler of logs whose first line takes until released. A Store writes it in the midst of a Put.
type hanging struct {
	slog.Handler
	released chan struct{}
}

func (hanging) Enabled(context.Context, slog.Level) bool { return true }

func (h hanging) Handle(context.Context, slog.Record) error {
	<-h.released
	return nil
}

// While a write does not end, what it has and what came since are told of all the same, and the stop does not wait for it.
func TestAWriteThatDoesNotEndHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		store := openStore(t, history.Config{MaxTerms: 1, Logger: slog.New(hanging{slog.DiscardHandler, released})})
		r, logs, stop := record(t, store)
		start := time.Now()
		first, second, third := goingOn(start, 0), goingOn(start.Add(time.Second), 0), goingOn(start.Add(2*time.Second), 0)
		first.End = start.Add(time.Second)
		r.Note("one", snapshot(nil, first))
		synctest.Wait()
		r.Note("one", snapshot(&second, second)) // beyond MaxTerms, which the Store logs
		synctest.Wait()
		over := second
		over.End = second.LastSeen.Add(time.Second)
		r.Note("one", snapshot(&third, over, third))
		third.LastSeen = third.LastSeen.Add(time.Second)
		r.Note("one", snapshot(&third))
		if open := r.OpenTerms("one"); len(open) != 1 || open[0] != third {
			t.Errorf("open terms %+v, want the third as last seen", open)
		}
		var seen []time.Duration
		for _, e := range all(t, r, history.Query{Limit: 1}) {
			seen = append(seen, e.LastSeen.Sub(start))
			if e.End.IsZero() != e.Holder.TermStart.Equal(third.Holder.TermStart) {
				t.Errorf("%+v: want all but the third to have ended", e)
			}
		}
		same(t, "last seen", seen, []time.Duration{3 * time.Second, time.Second})
		begin := time.Now()
		stop()
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("the stop took %v, want the bound of 5s", took)
		}
		if lines := logs.With("ERROR terms were lost: the history did not take them before the stop terms=2"); len(lines) != 1 {
			t.Errorf("log %q, want how many were lost", logs.With(""))
		}
		close(released)
		synctest.Wait()
	})
}

// What a Recorder tells of terms is what the Store tells once all of them are written: the order, the pages, and the cursors.
func TestRecorderTellsOfTermsAsIfTheyWereWritten(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	store, reference := openStore(t, history.Config{}), openStore(t, history.Config{})
	targets := []string{"eu", "us", "a"}
	var terms []history.Entry
	for i := range 300 {
		e := history.Entry{Target: targets[random.IntN(3)], Term: open(random.IntN(50), uint32(i))}
		e.Lock = string(rune('a' + random.IntN(3)))
		terms = append(terms, e)
		if random.IntN(2) == 0 {
			put(t, store, e.Target, e.Term)
		}
	}
	r := history.NewRecorder(store, slog.New(slog.DiscardHandler)) // does not run: all of it waits
	for _, e := range terms {
		on := e.Term
		on.LastSeen = on.LastSeen.Add(time.Duration(random.IntN(9)) * time.Second)
		changes := []lockwatch.Term{}
		if random.IntN(3) == 0 {
			changes = append(changes, e.Term)
		}
		if random.IntN(3) == 0 {
			r.Note(e.Target, snapshot(nil, append(changes, e.Term)...))
			on.End = on.LastSeen.Add(time.Second)
			r.Note(e.Target, snapshot(nil, on))
		} else {
			r.Note(e.Target, snapshot(&on, changes...))
		}
		put(t, reference, e.Target, on)
	}
	at := func(second int) time.Time { return day().Add(time.Duration(second) * time.Second) }
	for _, q := range []history.Query{
		{}, {Target: "eu"}, {Lock: "b"}, {From: at(20), To: at(30)}, {To: at(25)}, {Target: "a", Lock: "c", From: at(10)},
	} {
		for _, q.Limit = range []int{1, 7, 1000} {
			same(t, fmt.Sprintf("terms of %+v", q), all(t, r, q), all(t, reference, q))
			mine, err := r.Terms(q)
			theirs, errTheirs := reference.Terms(q)
			if err != nil || errTheirs != nil || mine.Next != theirs.Next {
				t.Errorf("%+v: next page %q, %v; want %q", q, mine.Next, err, theirs.Next)
			}
		}
	}
}

// A Recorder knows the open terms of its Store, and forgets those that are too old with it.
func TestRecorderBeginsWithTheOpenTermsOfItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t, history.Config{Retention: time.Hour})
		stale, on := goingOn(time.Now().Add(-2*time.Hour), 0), goingOn(time.Now(), 0)
		put(t, store, "one", stale, on)
		put(t, store, "two", on)
		r, _, stop := record(t, store)
		synctest.Wait()
		for target, want := range map[string]int{"one": 1, "two": 1, "three": 0} {
			if open := r.OpenTerms(target); len(open) != want {
				t.Errorf("%s: open terms %+v, want %d", target, open, want)
			}
		}
		stop()
	})
}
