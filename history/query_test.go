package history_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/history"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

func TestPagesHoldEachTermOnceThoughManyStartTogetherAndNewOnesBegin(t *testing.T) {
	for _, limit := range []int{7, 999, 5000} {
		s := openStore(t, history.Config{})
		var terms []lockwatch.Term
		for i := range 2500 {
			terms = append(terms, ended(i/50, i/50+1, uint32(i%5)))
			terms[i].Lock = string(rune('a' + i%50/5))
		}
		put(t, s, "eu", terms[:1250]...)
		put(t, s, "us", terms[1250:]...)
		before := all(t, s, history.Query{})
		if len(before) != 2500 {
			t.Fatalf("%d terms, want 2500", len(before))
		}
		if !slices.IsSortedFunc(before, func(a, b history.Entry) int { return b.Holder.TermStart.Compare(a.Holder.TermStart) }) {
			t.Error("the terms are not sorted, newest first")
		}
		var got []history.Entry
		for q, n := (history.Query{Limit: limit}), 0; ; n++ {
			page, err := s.Terms(q)
			if err != nil {
				t.Fatal(err)
			}
			if want := min(limit, 1000, 2500-len(got)); len(page.Terms) != want {
				t.Fatalf("limit %d: page %d has %d terms, want %d", limit, n, len(page.Terms), want)
			}
			got = append(got, page.Terms...)
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
			if n%16 == 0 {
				put(t, s, "asia", ended(100+n, 200+n, 1), open(300+n, 2))
				put(t, s, "us", terms[2499]) // an update
			}
		}
		same(t, "terms over all pages", got, before)
	}
}

func TestTermsFindsWhatTheQueryNames(t *testing.T) {
	s := openStore(t, history.Config{})
	other := ended(20, 30, 3)
	other.Lock = "migration"
	elsewhere := ended(25, 35, 4)
	elsewhere.Datname = "second"
	put(t, s, "eu", ended(0, 10, 1), ended(10, 20, 2), other, elsewhere)
	put(t, s, "us", ended(5, 40, 5), open(40, 6))
	at := func(second int) time.Time { return day().Add(time.Duration(second) * time.Second) }
	for name, test := range map[string]struct {
		q    history.Query
		pids []uint32
	}{
		"everything":                          {history.Query{}, []uint32{6, 4, 3, 2, 5, 1}},
		"a target":                            {history.Query{Target: "us"}, []uint32{6, 5}},
		"part of a target's name":             {history.Query{Target: "u"}, nil},
		"a database":                          {history.Query{Datname: "second"}, []uint32{4}},
		"a lock":                              {history.Query{Lock: "migration"}, []uint32{3}},
		"all three":                           {history.Query{Target: "eu", Datname: "plexsphere", Lock: "background-leader"}, []uint32{2, 1}},
		"from the end of one":                 {history.Query{From: at(10)}, []uint32{6, 4, 3, 2, 5}},
		"from just before its end":            {history.Query{From: at(10).Add(-1)}, []uint32{6, 4, 3, 2, 5, 1}},
		"to the start of one":                 {history.Query{To: at(10)}, []uint32{5, 1}},
		"to just after its start":             {history.Query{To: at(10).Add(1)}, []uint32{2, 5, 1}},
		"a moment in the midst":               {history.Query{From: at(12), To: at(12).Add(1)}, []uint32{2, 5}},
		"a moment of no length":               {history.Query{From: at(12), To: at(12)}, []uint32{2, 5}},
		"before everything":                   {history.Query{To: at(0)}, nil},
		"after everything but the open one":   {history.Query{From: at(50)}, []uint32{6}},
		"the future":                          {history.Query{From: time.Now().Add(time.Hour)}, nil},
		"a target in a range":                 {history.Query{Target: "eu", From: at(15), To: at(21)}, []uint32{3, 2}},
		"bounds that no key can have":         {history.Query{From: time.Unix(-1<<40, 0), To: time.Unix(1<<40, 0)}, []uint32{6, 4, 3, 2, 5, 1}},
		"to a moment before any key can have": {history.Query{To: time.Unix(-1<<40, 0)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, limit := range []int{0, 1, 2} {
				test.q.Limit = limit
				var pids []uint32
				for _, e := range all(t, s, test.q) {
					pids = append(pids, e.Holder.PID)
				}
				same(t, "pids", pids, test.pids)
			}
		})
	}
}

func TestTheDefaultLimitIsAHundred(t *testing.T) {
	s := openStore(t, history.Config{})
	for i := range 101 {
		put(t, s, "eu", open(i, 1))
	}
	page, err := s.Terms(history.Query{Limit: -1})
	if err != nil || len(page.Terms) != 100 || page.Next == "" {
		t.Errorf("%d terms, next %q, %v; want 100 and a next page", len(page.Terms), page.Next, err)
	}
	page, err = s.Terms(history.Query{Cursor: page.Next})
	if err != nil || len(page.Terms) != 1 || page.Next != "" {
		t.Errorf("then %d terms, next %q, %v; want the last", len(page.Terms), page.Next, err)
	}
}

func TestAPageLooksAtTenThousandTermsAndGoesOn(t *testing.T) {
	s := openStore(t, history.Config{})
	terms := []lockwatch.Term{ended(0, 20_000, 7)}
	for i := range 10_000 {
		terms = append(terms, ended(1+i/10, 3000, uint32(100+i)))
	}
	put(t, s, "eu", terms...)
	q := history.Query{From: day().Add(4000 * time.Second)}
	for _, want := range []int{0, 1} {
		page, err := s.Terms(q)
		if err != nil || len(page.Terms) != want || (page.Next == "") != (want == 1) {
			t.Fatalf("%d terms, next %q, %v; want %d", len(page.Terms), page.Next, err, want)
		}
		q.Cursor = page.Next
	}
}

func TestTermsRefusesAReversedRange(t *testing.T) {
	s := openStore(t, history.Config{})
	_, err := s.Terms(history.Query{From: day(), To: day().Add(-1)})
	if !errors.Is(err, history.ErrBadRange) {
		t.Errorf("%v, want ErrBadRange", err)
	}
}

func TestACursorWorksAfterItsTermIsGone(t *testing.T) {
	s := openStore(t, history.Config{Retention: time.Second})
	put(t, s, "eu", ended(1, 10_000, 1), ended(2, 3, 2), ended(3, 10_000, 3))
	page, err := s.Terms(history.Query{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Expire(day().Add(time.Minute)); n != 1 || err != nil {
		t.Fatalf("Expire: %d, %v", n, err)
	}
	rest := all(t, s, history.Query{Cursor: page.Next})
	same(t, "the rest", rest, []history.Entry{{Target: "eu", Term: ended(1, 10_000, 1)}})
}

func TestTermsRefusesWhatIsNoCursor(t *testing.T) {
	s := openStore(t, history.Config{})
	put(t, s, "eu", open(1, 1), open(2, 2))
	page, err := s.Terms(history.Query{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, cursor := range []string{"!", "A", "AAAA", page.Next + "A", page.Next + "AAAA", page.Next[:len(page.Next)-4], page.Next[4:], page.Next + "=", " " + page.Next} {
		if _, err := s.Terms(history.Query{Cursor: cursor}); !errors.Is(err, history.ErrBadCursor) {
			t.Errorf("cursor %q: %v, want ErrBadCursor", cursor, err)
		}
	}
}

// FuzzTermsTakesACursorOrRefusesIt: whatever a client sends, the answer is a page of terms that are there, or ErrBadCursor.
func FuzzTermsTakesACursorOrRefusesIt(f *testing.F) {
	s := openStore(f, history.Config{})
	for i := range 20 {
		put(f, s, "eu", open(i/2, uint32(i)))
	}
	for q, more := (history.Query{Limit: 3}), true; more; more = q.Cursor != "" {
		page, err := s.Terms(q)
		if err != nil {
			f.Fatal(err)
		}
		q.Cursor = page.Next
		f.Add(q.Cursor)
	}
	f.Add("AAAAAAAAAAD_________AQAAAAAAAAAB")
	f.Fuzz(func(t *testing.T, cursor string) {
		page, err := s.Terms(history.Query{Cursor: cursor})
		if err != nil && !errors.Is(err, history.ErrBadCursor) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
		if len(page.Terms) > 20 || page.Next != "" {
			t.Errorf("cursor %q: %d terms, next %q", cursor, len(page.Terms), page.Next)
		}
	})
}
