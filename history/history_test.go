package history_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plexsphere/leader-exporter/history"
	"github.com/plexsphere/leader-exporter/lockkey"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// day is the moment from which the tests count.
func day() time.Time { return time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC) }

// ended returns a term that goes from one second of the day to another.
func ended(from, to int, pid uint32) lockwatch.Term {
	t := open(from, pid)
	t.End = day().Add(time.Duration(to) * time.Second)
	t.LastSeen = t.End.Add(-time.Second)
	return t
}

// open returns a term that began at that second of the day, and was seen once.
func open(from int, pid uint32) lockwatch.Term {
	start := day().Add(time.Duration(from) * time.Second)
	return lockwatch.Term{
		Datname: "plexsphere", Lock: "background-leader", After: start.Add(-time.Second), LastSeen: start,
		Holder: lockwatch.Holder{PID: pid, ApplicationName: "plexsphere-1", TermStart: start, HeartbeatAge: -1, Visible: true},
	}
}

// openStore opens a history that is closed with the test.
func openStore(t testing.TB, cfg history.Config) *history.Store {
	t.Helper()
	s, err := history.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func put(t testing.TB, s *history.Store, target string, terms ...lockwatch.Term) {
	t.Helper()
	if err := s.Put(target, terms...); err != nil {
		t.Fatal(err)
	}
}

// reader is a Store or a Recorder.
type reader interface {
	Terms(q history.Query) (history.Page, error)
}

// all returns what the pages of a query hold together.
func all(t testing.TB, s reader, q history.Query) []history.Entry {
	t.Helper()
	var entries []history.Entry
	for {
		page, err := s.Terms(q)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, page.Terms...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return entries
		}
	}
}

// openTerms returns the open terms of one target.
func openTerms(t testing.TB, s *history.Store, target string) (terms []lockwatch.Term) {
	t.Helper()
	entries, err := s.OpenTerms()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Target == target {
			terms = append(terms, e.Term)
		}
	}
	return terms
}

// same fails the test unless the terms are those wanted, in their order.
func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b lockkey.Key) bool { return a == b })); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// stores runs a test on a file and in memory.
func stores(t *testing.T, test func(t *testing.T, path string)) {
	t.Helper()
	t.Run("file", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "history.db")) })
	t.Run("memory", func(t *testing.T) { test(t, "") })
}

func TestTermsComeBackAsTheyWerePut(t *testing.T) {
	zone := time.FixedZone("", 3600)
	full := lockwatch.Term{
		Datname: "data\x00base\xff", Lock: "løck", Key: lockkey.Pair(-1, 2), Server: lockwatch.Server{SystemIdentifier: 1<<62 + 1, Started: day().Add(-2 * time.Hour)}, After: day().Add(-1), LastSeen: day().Add(time.Nanosecond), End: day().Add(time.Hour),
		Holder: lockwatch.Holder{
			PID: 1<<32 - 1, ApplicationName: "plexsphere \"1\"", Usename: "u", ClientAddr: "2001:db8::1", BackendStart: day().Add(-time.Hour),
			TermStart: day(), HeartbeatAge: -1, Foreign: true, Visible: true,
		},
	}
	least := lockwatch.Term{Holder: lockwatch.Holder{TermStart: day().AddDate(-300, 0, 0), HeartbeatAge: -1}}
	given := full
	given.Server.Started = full.Server.Started.In(zone)
	given.End, given.Holder.TermStart = full.End.In(zone), full.Holder.TermStart.In(zone)
	given.Holder.HeartbeatAge = time.Second
	stores(t, func(t *testing.T, path string) {
		s := openStore(t, history.Config{Path: path})
		put(t, s, "", least)
		put(t, s, "eu", given)
		same(t, "terms", all(t, s, history.Query{}), []history.Entry{{Target: "eu", Term: full}, {Target: "", Term: least}})
	})
}

func TestAFileKeepsTermsWhenItIsClosedAndOpenedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	s := openStore(t, history.Config{Path: path})
	put(t, s, "eu", ended(1, 5, 1), open(6, 2))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want := []history.Entry{{Target: "eu", Term: open(6, 2)}, {Target: "eu", Term: ended(1, 5, 1)}}
	same(t, "terms", all(t, openStore(t, history.Config{Path: path}), history.Query{}), want)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v; want it for its owner alone", info.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v; want the history alone", left, err)
	}
}

func TestAnOpenTermIsUpdatedUntilItEnds(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		s := openStore(t, history.Config{Path: path})
		put(t, s, "eu", open(10, 1))
		put(t, s, "eu-2", open(11, 2)) // a target whose name begins with the other's
		later := open(10, 1)
		later.LastSeen, later.Holder.ApplicationName = day().Add(time.Minute), "renamed"
		put(t, s, "eu", later)
		for target, want := range map[string][]lockwatch.Term{"eu": {later}, "eu-2": {open(11, 2)}, "e": nil} {
			same(t, "open terms of "+target, openTerms(t, s, target), want)
		}
		put(t, s, "eu", ended(10, 90, 1))
		if got := openTerms(t, s, "eu"); len(got) != 0 {
			t.Errorf("OpenTerms after the end: %v; want none", got)
		}
		same(t, "terms", all(t, s, history.Query{}), []history.Entry{{Target: "eu-2", Term: open(11, 2)}, {Target: "eu", Term: ended(10, 90, 1)}})
	})
}

func TestTermsThatDifferInOnePartOfTheirKeyAreTwo(t *testing.T) {
	s := openStore(t, history.Config{})
	base := open(1, 1)
	otherPID, otherStart, otherLock, otherDatname := open(1, 2), open(2, 1), base, base
	otherLock.Lock, otherDatname.Datname = "x", "x"
	moved := base // the same letters, with the border between two names elsewhere
	moved.Datname, moved.Lock = base.Datname+base.Lock[:1], base.Lock[1:]
	put(t, s, "eu", base, otherPID, otherStart, otherLock, otherDatname, moved)
	put(t, s, "us", base)
	if got := len(all(t, s, history.Query{})); got != 7 {
		t.Errorf("%d terms, want 7", got)
	}
}

func TestPutRefusesATermWithoutAStartAndThenPutsNone(t *testing.T) {
	s := openStore(t, history.Config{})
	for _, bad := range []lockwatch.Term{{}, ended(1, 2, 3)} {
		if bad.Holder.TermStart.IsZero() {
			bad.LastSeen = day()
		} else {
			bad.Lock = string(make([]byte, 40_000))
		}
		if err := s.Put("eu", ended(1, 2, 1), bad); err == nil {
			t.Errorf("Put took a term with start %v and a lock name of %d bytes", bad.Holder.TermStart, len(bad.Lock))
		}
	}
	if got := all(t, s, history.Query{}); len(got) != 0 {
		t.Errorf("%v is there after Put returned an error", got)
	}
}

func TestExpireDeletesWhatEndedBeforeTheRetention(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		s := openStore(t, history.Config{Path: path, Retention: time.Hour})
		stale := open(5, 4)
		seen := open(6, 5)
		seen.LastSeen = day().Add(101 * time.Second)
		put(t, s, "eu", ended(1, 99, 1), ended(2, 100, 2), ended(3, 2000, 3), stale, seen, ended(3000, 3001, 6))
		n, err := s.Expire(day().Add(time.Hour + 100*time.Second))
		if err != nil || n != 2 {
			t.Errorf("Expire: %d, %v; want the term that ended before and the open one that was not seen since", n, err)
		}
		var pids []uint32
		for _, e := range all(t, s, history.Query{}) {
			pids = append(pids, e.Holder.PID)
		}
		same(t, "pids that are left", pids, []uint32{6, 5, 3, 2})
		if terms := openTerms(t, s, "eu"); len(terms) != 1 {
			t.Errorf("OpenTerms: %v; want one", terms)
		}
	})
}

func TestExpireGoesThroughManyTermsAndDefaultsToNinetyDays(t *testing.T) {
	s := openStore(t, history.Config{})
	var terms []lockwatch.Term
	for i := range 3500 {
		terms = append(terms, ended(i/5, i/5+1+i%2*10_000, uint32(i)))
	}
	put(t, s, "eu", terms...)
	now := day().Add(90*24*time.Hour + 5000*time.Second)
	if n, err := s.Expire(now); err != nil || n != 1750 {
		t.Errorf("Expire: %d, %v; want 1750", n, err)
	}
	if got := len(all(t, s, history.Query{Limit: 1000})); got != 1750 {
		t.Errorf("%d terms are left, want 1750", got)
	}
}

func TestCallsOfManyGoroutinesDoNotDisturbEachOther(t *testing.T) {
	s := openStore(t, history.Config{})
	done := make(chan error)
	const writers, terms = 4, 50
	for w := range writers {
		go func() {
			target := fmt.Sprint(w)
			for i := range terms {
				if err := s.Put(target, open(i, 1)); err != nil {
					done <- err
					return
				}
				if err := s.Put(target, ended(i, i+1, 1)); err != nil {
					done <- err
					return
				}
				if _, err := s.Terms(history.Query{Target: target}); err != nil {
					done <- err
					return
				}
			}
			_, err := s.Expire(day())
			done <- err
		}()
	}
	for range writers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := len(all(t, s, history.Query{})); got != writers*terms {
		t.Errorf("%d terms, want %d", got, writers*terms)
	}
}

func TestEveryCallAfterCloseReturnsAnError(t *testing.T) {
	s, err := history.Open(history.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	_, errTerms := s.Terms(history.Query{})
	_, errOpen := s.OpenTerms()
	_, errExpire := s.Expire(day())
	for i, err := range []error{s.Put("eu", open(1, 1)), errTerms, errOpen, errExpire} {
		if err == nil {
			t.Errorf("call %d returned no error after Close", i)
		}
	}
}
