package history_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/plexsphere/leader-exporter/history"
	"github.com/plexsphere/leader-exporter/internal/logtest"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

func TestPutDeletesTheFirstTermsBeyondMaxTermsAndSaysSoOnce(t *testing.T) {
	var lines logtest.Lines
	s := openStore(t, history.Config{MaxTerms: 3, Logger: slog.New(&lines)})
	put(t, s, "eu", open(1, 1), ended(2, 3, 2), ended(4, 5, 3))
	if got := lines.With(""); len(got) != 0 {
		t.Errorf("logged %q before the limit was met", got)
	}
	put(t, s, "eu", ended(6, 7, 4))
	put(t, s, "eu", ended(6, 8, 4)) // an update
	want := []history.Entry{{Target: "eu", Term: ended(6, 8, 4)}, {Target: "eu", Term: ended(4, 5, 3)}, {Target: "eu", Term: open(1, 1)}}
	same(t, "terms", all(t, s, history.Query{}), want)
	put(t, s, "eu", open(9, 5), open(10, 6), open(11, 7))
	want = []history.Entry{{Target: "eu", Term: open(11, 7)}, {Target: "eu", Term: open(10, 6)}, {Target: "eu", Term: open(9, 5)}}
	same(t, "terms once all are open", all(t, s, history.Query{}), want)
	if got := lines.With("WARN history is full file=memory max_terms=3"); len(got) != 1 || len(lines.With("")) != 1 {
		t.Errorf("logged %q, want one line that it is full", lines.With(""))
	}
}

// of gives the term to another lock.
func of(lock string, t lockwatch.Term) lockwatch.Term {
	t.Lock = lock
	return t
}

// A lock that flaps for days pushes out its own past, and that of no other lock of any target.
func TestMaxTermsTakesFromTheLocksThatHaveTheMost(t *testing.T) {
	const limit = 1000
	s := openStore(t, history.Config{MaxTerms: limit})
	quiet, some := []lockwatch.Term{of("quiet", open(0, 1))}, []lockwatch.Term(nil)
	for i := range 50 {
		some = append(some, of("flapping", ended(i, i+1, 1)))
	}
	put(t, s, "us", some...)
	put(t, s, "eu", quiet...)
	const terms = 5000
	for i := 0; i < terms; i += 7 {
		var batch []lockwatch.Term
		for j := i; j < min(i+7, terms); j++ {
			batch = append(batch, of("flapping", ended(100+j, 101+j, 1)))
		}
		put(t, s, "eu", batch...)
		if i > 2*limit && i%700 == 0 {
			if n := len(all(t, s, history.Query{Limit: limit})); n > limit || n < limit-limit/100 {
				t.Fatalf("%d terms after %d, want 990 to 1000", n, i)
			}
		}
	}
	if got := all(t, s, history.Query{Target: "eu", Lock: "quiet"}); len(got) != 1 {
		t.Errorf("of the quiet lock %d terms are left, want its one", len(got))
	}
	if got := all(t, s, history.Query{Target: "us"}); len(got) != len(some) {
		t.Errorf("of the other target %d terms are left, want all %d", len(got), len(some))
	}
	got := all(t, s, history.Query{Target: "eu", Lock: "flapping", Limit: limit})
	for i, e := range got {
		if want := of("flapping", ended(99+terms-i, 100+terms-i, 1)); !e.Holder.TermStart.Equal(want.Holder.TermStart) {
			t.Fatalf("of the lock that flaps the term %d before the last began at %v, want %v", i, e.Holder.TermStart, want.Holder.TermStart)
		}
	}
}

// Locks that have the same number lose the same, and of one only what it has more.
func TestMaxTermsLeavesLocksLevel(t *testing.T) {
	s := openStore(t, history.Config{MaxTerms: 12})
	var terms []lockwatch.Term
	for i := range 10 {
		terms = append(terms, of("a", ended(i, i+1, 1)), of("b", ended(20+i, 21+i, 1)))
	}
	put(t, s, "eu", of("c", ended(0, 1, 2)), of("c", ended(1, 2, 2)))
	put(t, s, "eu", terms...)
	for lock, want := range map[string]int{"a": 5, "b": 5, "c": 2} {
		if got := all(t, s, history.Query{Lock: lock}); len(got) != want {
			t.Errorf("lock %s has %d terms, want %d", lock, len(got), want)
		}
	}
}

// What is above the limit goes with a hundredth of it, so that not each Put has to look at all terms.
func TestMaxTermsDeletesAHundredthAtOnce(t *testing.T) {
	const limit = 1000
	s := openStore(t, history.Config{MaxTerms: limit})
	var terms []lockwatch.Term
	for i := range limit {
		terms = append(terms, ended(i, i+1, 1))
	}
	put(t, s, "eu", terms...)
	put(t, s, "eu", ended(limit, limit+1, 1))
	if got := len(all(t, s, history.Query{Limit: limit})); got != limit+1-limit/100 {
		t.Errorf("%d terms are left, want 991", got)
	}
}

// What has the most gives first, also if its terms are the youngest; only then the others, one each, from the oldest on.
func TestMaxTermsTakesFromTheTopFirst(t *testing.T) {
	s := openStore(t, history.Config{MaxTerms: 1000})
	const quiet, each = 99, 10
	var terms []lockwatch.Term
	for i := range quiet * each {
		terms = append(terms, of(fmt.Sprint(i/each), ended(i, i+1, 1)))
	}
	for i := range each + 1 { // one term is too many, so ten go
		terms = append(terms, of("flapping", ended(2000+i, 2001+i, 1)))
	}
	put(t, s, "eu", terms...)
	if got := len(all(t, s, history.Query{Lock: "flapping"})); got != each {
		t.Errorf("the lock that had %d terms has %d, want %d", each+1, got, each)
	}
	for i := range quiet {
		want := each
		if i < each-1 { // beside the one of the lock that has more, these give one
			want--
		}
		if got := len(all(t, s, history.Query{Lock: fmt.Sprint(i)})); got != want {
			t.Errorf("lock %d has %d terms, want %d", i, got, want)
		}
	}
}
