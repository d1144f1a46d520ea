package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/lockwatch"
)

// A term goes on while it is the present one of a lock that is watched. One that nobody watches any more has no end that is known.
func TestTermsGoOnWhileTheyAreWatched(t *testing.T) {
	r := newRig(t, "one", "two")
	start := time.Now().Add(-time.Hour)
	begun := heldBy(7, "a", start, true)
	before := begun.Changes[0]
	before.Holder.PID, before.Holder.TermStart, before.LastSeen, before.End = 6, start.Add(-time.Hour), start, start
	begun.Changes = append(begun.Changes, before)
	ended := begun.Changes[0]
	ended.End = start.Add(time.Minute)
	base := r.serve(t)
	s := connect(t, base, "?target=one", "")
	s.require(t, "reset", "lock one unknown")
	requireEvents := func(want ...string) {
		t.Helper()
		for _, w := range want {
			if m, ok := s.next(t); !ok || fmt.Sprint(m.data["pid"], " ", m.data["ongoing"]) != w {
				t.Errorf("event %v %v, want that of %s", m, m.data["ongoing"], w)
			}
		}
	}
	requireTerms := func(want, page string) {
		t.Helper()
		var got []string
		for _, term := range r.objects(t, "/api/v1/terms", "terms") {
			_, end := term["end"]
			got = append(got, fmt.Sprintf("%v %v %v", term["pid"], term["ongoing"], end))
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("terms %q, want %q", text, want)
		}
		if text := pageText(r.get("/")); !strings.Contains(text, page) {
			t.Errorf("the page lacks %q:\n%s", page, text)
		}
	}
	seen := "last seen " + start.UTC().Format("2006-01-02 15:04:05 UTC")

	r.poll(t, "one", begun)
	requireEvents("7 true", "6 false")
	requireTerms("7 true false, 6 false true", "now, "+seen)
	failed := heldBy(7, "a", start, false)
	failed.Err = fmt.Errorf("refused")
	failed.Locks[0].Known = false
	r.poll(t, "one", failed) // it may go on
	requireTerms("7 true false, 6 false true", "now, "+seen)

	locks, all := r.targets[0].Locks, r.targets
	r.targets[0].Locks = []lockwatch.Lock{{Name: "other"}}
	requireTerms("7 false false, 6 false true", "")
	r.targets[0].Locks = locks
	r.targets = r.targets[1:]
	requireTerms("7 false false, 6 false true", "")
	r.targets = all
	r.poll(t, "one", free()) // an exporter that started anew, and has found nobody
	requireTerms("7 false false, 6 false true", seen+", end not known")
	r.poll(t, "one", free(ended))
	requireTerms("7 false true, 6 false true", "")
}
