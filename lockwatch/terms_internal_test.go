package lockwatch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/lockkey"
)

// story plays answers and gaps one second apart and returns the books.
func story(t *testing.T, polls ...any) LockState {
	t.Helper()
	state, _ := storyAfter(t, nil, polls...)
	return state
}

// storyAfter plays them on from terms that an earlier watcher has seen, and returns what changed too. A Server is that of the polls which follow.
func storyAfter(t *testing.T, resumed []Term, polls ...any) (state LockState, changes []Term) {
	t.Helper()
	b := newBooks(Config{Locks: []Lock{{Name: "lock", Key: lockkey.BackgroundLeader()}}, Resume: resumed}.withDefaults())
	at, on := storyBegin(), Server{SystemIdentifier: 1, Started: time.Unix(1, 0)}
	for _, poll := range polls {
		got, known := of("db", at, nil), true
		o := &got.databases["db"].observations[0]
		switch p := poll.(type) {
		case Server:
			on = p
			continue
		case nil:
		case *Holder:
			copied := *p
			o.holders, o.holder = 1, &copied
		case int: // so many holders of a shared lock
			o.holders = p
		default:
			known = false
		}
		got.server = on
		changes = append(changes, b.enter(got, known, at, time.Second)...)
		at = at.Add(time.Second)
	}
	for _, told := range b.states() {
		state = told
	}
	return state, changes
}

func storyBegin() time.Time { return time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC) }

// A term is told of when it begins and when it has ended, with the last poll before each moment and the first one after it.
func TestTermsTellOfTheirMoments(t *testing.T) {
	a, b, blind, blindB := backend(1, 10), backend(2, 20), backend(1, 0), backend(2, 0)
	one, restarted, other := Server{1, time.Unix(1, 0)}, Server{1, time.Unix(2, 0)}, Server{2, time.Unix(1, 0)}
	seenOn := func(on Server, key lockkey.Key, h *Holder, start, seen int) Term {
		holder := *h
		holder.TermStart = storyBegin().Add(time.Duration(start) * time.Second)
		return Term{Datname: "db", Lock: "lock", Key: key, Server: on, Holder: holder, LastSeen: storyBegin().Add(time.Duration(seen) * time.Second)}
	}
	resumed := func(h *Holder, seen int) []Term {
		return []Term{seenOn(one, lockkey.BackgroundLeader(), h, -3600, seen)}
	}
	const early = -3591
	for name, tc := range map[string]struct {
		resumed []Term
		polls   []any
		want    string // of each change: pid, after, start, last seen, end
		open    string // the term that goes on
	}{
		"found held":                     {polls: []any{a, a, a}, want: "1: - 0 0 -", open: "1: - 0 2 -"},
		"begins and ends":                {polls: []any{nil, nil, a, a, a, nil}, want: "1: 1 2 2 -, 1: 1 2 4 5"},
		"handover between two polls":     {polls: []any{a, a, b, b}, want: "1: - 0 0 -, 1: - 0 1 2, 2: 1 2 2 -", open: "2: 1 2 3 -"},
		"goes on through an outage":      {polls: []any{a, gap{}, gap{}, a}, want: "1: - 0 0 -", open: "1: - 0 3 -"},
		"goes on, as far as known":       {polls: []any{a, a, gap{}}, want: "1: - 0 0 -", open: "1: - 0 1 -"},
		"ends in an outage":              {polls: []any{a, a, gap{}, gap{}, nil}, want: "1: - 0 0 -, 1: - 0 1 4"},
		"another one after an outage":    {polls: []any{a, gap{}, gap{}, b}, want: "1: - 0 0 -, 1: - 0 0 3, 2: 0 3 3 -", open: "2: 0 3 3 -"},
		"resumed and found again":        {resumed: resumed(a, early), polls: []any{gap{}, a, a, nil}, want: "1: - -3600 2 3"},
		"resumed and gone":               {resumed: resumed(a, early), polls: []any{nil}, want: "1: - -3600 -3591 0"},
		"resumed, led by another":        {resumed: resumed(a, early), polls: []any{b}, want: "1: - -3600 -3591 0, 2: - 0 0 -", open: "2: - 0 0 -"},
		"resumed, not seen yet":          {resumed: resumed(a, early), polls: []any{gap{}}},
		"a server whose clock is behind": {resumed: resumed(a, 3600), polls: []any{nil}, want: "1: - -3600 3600 3600"},
		"the start is hidden meanwhile":  {polls: []any{a, blind, nil}, want: "1: - 0 0 -, 1: - 0 1 2"},

		"resumed blind and found again": {resumed: resumed(blind, early), polls: []any{blind, nil}, want: "1: - -3600 0 1"},
		"resumed blind and gone":        {resumed: resumed(blind, early), polls: []any{nil}, want: "1: - -3600 -3591 0"},
		"resumed blind, now visible":    {resumed: resumed(blind, early), polls: []any{a, nil}, want: "1: - -3600 0 1"},
		"several resumed, one goes on": {
			resumed: append(append(resumed(blindB, early), resumed(blind, early)...), resumed(b, early)...), polls: []any{blind},
			want: "2: - -3600 -3591 0, 2: - -3600 -3591 0", open: "1: - -3600 0 -",
		},
		"the same pid twice, the later goes on": {
			resumed: []Term{seenOn(one, lockkey.BackgroundLeader(), blind, -60, -50), seenOn(one, lockkey.BackgroundLeader(), blind, -90, -80)}, polls: []any{blind},
			want: "1: - -90 -80 0", open: "1: - -60 0 -",
		},

		"a pid again after a restart":           {polls: []any{blind, gap{}, restarted, blind}, want: "1: - 0 0 -, 1: - 0 0 2, 1: 0 2 2 -", open: "1: 0 2 2 -"},
		"resumed, a pid again after a restart":  {resumed: resumed(blind, early), polls: []any{restarted, blind}, want: "1: - -3600 -3591 0, 1: - 0 0 -", open: "1: - 0 0 -"},
		"resumed, another cluster":              {resumed: resumed(blind, early), polls: []any{other, blind, nil}, want: "1: - 0 0 -, 1: - 0 0 1"},
		"resumed, another key":                  {resumed: []Term{seenOn(one, lockkey.Bigint(7), blind, -60, -50)}, polls: []any{blind, nil}, want: "1: - 0 0 -, 1: - 0 0 1"},
		"resumed, the cluster is there again":   {resumed: resumed(blind, early), polls: []any{other, nil, gap{}, one, blind}, open: "1: - -3600 2 -"},
		"resumed, an old file, with the start":  {resumed: []Term{seenOn(Server{}, lockkey.Key{}, a, -60, -50)}, polls: []any{a, nil}, want: "1: - -60 0 1"},
		"resumed, an old file, blind":           {resumed: []Term{seenOn(Server{}, lockkey.Key{}, blind, -60, -50)}, polls: []any{blind}, want: "1: - -60 -50 0, 1: - 0 0 -", open: "1: - 0 0 -"},
		"resumed, an old file, blind meanwhile": {resumed: []Term{seenOn(Server{}, lockkey.Key{}, a, -60, -50)}, polls: []any{blind}, want: "1: - -60 -50 0, 1: - 0 0 -", open: "1: - 0 0 -"},
		"the identifier is hidden":              {polls: []any{Server{0, time.Unix(1, 0)}, blind, gap{}, Server{0, time.Unix(2, 0)}, blind}, want: "1: - 0 0 -, 1: - 0 0 2, 1: 0 2 2 -", open: "1: 0 2 2 -"},
		"back to another cluster":               {polls: []any{blind, blind, gap{}, other, blind, nil}, want: "1: - 0 0 -, 1: - 3 3 -, 1: - 3 3 4"},
		"to another cluster and back":           {polls: []any{nil, blind, gap{}, other, nil, gap{}, one, blind, nil}, want: "1: 0 1 1 -, 1: 0 1 5 6"},
		"to another cluster and back too late":  {polls: []any{nil, blind, gap{}, other, nil, gap{}, one, nil}, want: "1: 0 1 1 -, 1: 0 1 1 5"},
	} {
		state, changes := storyAfter(t, tc.resumed, tc.polls...)
		var got []string
		for _, term := range changes {
			got = append(got, moments(term))
		}
		open := ""
		if state.Term != nil {
			open = moments(*state.Term)
		}
		if text := strings.Join(got, ", "); text != tc.want || open != tc.open {
			t.Errorf("%s: %q, open %q; want %q, open %q", name, text, open, tc.want, tc.open)
		}
		if tc.resumed != nil && state.Terms == 0 && state.Known && state.Holder != nil {
			t.Errorf("%s: a term is held and none was counted", name)
		}
	}
}

// A backend that ended while the poll read takes nothing of what is known of it away, and is judged in nothing.
func TestVanishedBackendIsNotJudged(t *testing.T) {
	lock, pid, yes := int64(1), int32(7), true
	name, role, addr, start, idle := "api-1", "api", "10.0.0.7", time.Unix(10, 0), 1.0
	there := row{
		datname: "db", own: true, lock: &lock, pid: &pid, granted: &yes, exclusive: &yes,
		backendStart: &start, applicationName: &name, usename: &role, clientAddr: &addr, heartbeatSeconds: &idle,
	}
	vanished := row{datname: "db", own: true, lock: &lock, pid: &pid, granted: &yes, exclusive: &yes, vanished: true}
	play := func(rows ...row) LockState {
		b := newBooks(Config{Locks: []Lock{{Name: "lock", Key: lockkey.BackgroundLeader(), ExpectedApplicationNames: []string{"api-2"}}}}.withDefaults())
		for i, r := range rows {
			got := digest([]row{r}, 1)
			got.serverNow = storyBegin().Add(time.Duration(i) * time.Second)
			b.enter(got, true, got.serverNow, time.Second)
		}
		return b.states()[0]
	}
	want := play(there).Term.Holder
	want.HeartbeatAge = -1
	after := play(there, vanished)
	if after.Term.Holder != want || *after.Holder != want || !want.Foreign || !want.Visible || after.Terms != 1 {
		t.Errorf("holder %+v, term of %+v; want %+v", after.Holder, after.Term.Holder, want)
	}
	if alone := play(vanished).Holder; alone.PID != 7 || alone.Foreign || !alone.Visible || alone.HeartbeatAge >= 0 {
		t.Errorf("seen only as it ends: %+v, want neither foreign nor invisible", alone)
	}
	blind := there
	blind.backendStart, blind.clientAddr, blind.heartbeatSeconds = nil, nil, nil
	if hidden := play(there, blind).Holder; hidden.Visible || !hidden.Foreign || hidden.ClientAddr != "" {
		t.Errorf("hidden: %+v, want what the role can see", hidden)
	}
}

// Whatever the server's clock does, the bounds of a term are in their order.
func TestBoundsAreOrderedWhateverTheClockDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		b := newBooks(Config{Locks: []Lock{{Name: "lock", Key: lockkey.BackgroundLeader()}}}.withDefaults())
		at, clock := time.Now(), storyBegin()
		for range 20 {
			at, clock = at.Add(time.Second), clock.Add(time.Duration(random.IntN(9)-3)*time.Second)
			var holder *Holder
			if pid := random.IntN(3); pid > 0 {
				holder = backend(uint32(pid), pid)
			}
			got := of("db", clock, holder)
			got.spent = time.Duration(random.IntN(3)) * time.Second
			changes := b.enter(got, random.IntN(5) > 0, at, time.Second)
			for _, state := range b.states() {
				if state.Term != nil {
					changes = append(changes, *state.Term)
				}
			}
			for _, term := range changes {
				start := term.Holder.TermStart
				if term.After.After(start) || start.After(term.LastSeen) || !term.End.IsZero() && term.LastSeen.After(term.End) {
					t.Fatalf("a term of %s", moments(term))
				}
			}
		}
	}
}

// moments gives the moments of a term in seconds of the story.
func moments(term Term) string {
	text := fmt.Sprintf("%d:", term.Holder.PID)
	for _, at := range []time.Time{term.After, term.Holder.TermStart, term.LastSeen, term.End} {
		if at.IsZero() {
			text += " -"
			continue
		}
		text += fmt.Sprintf(" %d", int(at.Sub(storyBegin()).Seconds()))
	}
	return text
}

type gap struct{}

// backend returns a holder whose backend started at the given second.
func backend(pid uint32, start int) *Holder {
	h := &Holder{PID: pid}
	if start > 0 {
		h.BackendStart = time.Unix(int64(start), 0)
	}
	return h
}

func TestTermsCountsWhatThePollsSaw(t *testing.T) {
	a, b, again := backend(1, 10), backend(2, 20), backend(1, 30)
	blind, blindB := backend(1, 0), backend(2, 0)
	for name, tc := range map[string]struct {
		polls     []any
		terms     uint64
		unheld    time.Duration
		multiple  time.Duration
		handovers uint64
		took      float64
	}{
		"nobody":                        {polls: []any{nil, nil, nil}, unheld: 2 * time.Second},
		"one holder":                    {polls: []any{a, a, a}, terms: 1},
		"a handover between two polls":  {polls: []any{a, b, b}, terms: 2, handovers: 1},
		"a handover with a gap in it":   {polls: []any{a, nil, nil, b}, terms: 2, unheld: 2 * time.Second, handovers: 1, took: 2},
		"found unheld, then led":        {polls: []any{nil, a}, terms: 1, unheld: time.Second},
		"the same holder after a gap":   {polls: []any{a, gap{}, gap{}, a}, terms: 1},
		"another holder after a gap":    {polls: []any{a, gap{}, b}, terms: 2},
		"free after a gap, then led":    {polls: []any{a, gap{}, nil, b}, terms: 2, unheld: time.Second},
		"gap while free":                {polls: []any{a, nil, gap{}, nil, b}, terms: 2, unheld: time.Second},
		"unheld time stops at a gap":    {polls: []any{nil, nil, gap{}, gap{}, nil, nil}, unheld: 2 * time.Second},
		"a pid used again":              {polls: []any{a, again}, terms: 2, handovers: 1},
		"a pid used again, unseen":      {polls: []any{blind, blind}, terms: 1},
		"other pid without start":       {polls: []any{blind, blindB}, terms: 2, handovers: 1},
		"the start becomes visible":     {polls: []any{blind, a, a}, terms: 1},
		"shared holders are no leader":  {polls: []any{2, 2, 2}, unheld: 2 * time.Second, multiple: 2 * time.Second},
		"the same holder twice, unheld": {polls: []any{a, nil, a}, terms: 2, unheld: time.Second, handovers: 1, took: 1},
	} {
		got := story(t, tc.polls...)
		if got.Terms != tc.terms || got.Unheld != tc.unheld || got.MultipleHolders != tc.multiple ||
			got.Handover.Count != tc.handovers || got.Handover.Sum != tc.took {
			t.Errorf("%s: terms %d, unheld %v, multiple %v, handovers %d of %v s; want %d, %v, %v, %d of %v s", name,
				got.Terms, got.Unheld, got.MultipleHolders, got.Handover.Count, got.Handover.Sum,
				tc.terms, tc.unheld, tc.multiple, tc.handovers, tc.took)
		}
	}
}

func TestTermStartIsKeptWhileTheTermGoesOn(t *testing.T) {
	a := backend(1, 10)
	got := story(t, nil, a, a, gap{}, a)
	if want := time.Date(2026, 12, 2, 3, 0, 1, 0, time.UTC); got.Holder == nil || !got.Holder.TermStart.Equal(want) {
		t.Errorf("holder %+v, want one whose term started at %v", got.Holder, want)
	}
}

func TestUnansweredPollForgetsTheHolder(t *testing.T) {
	if got := story(t, backend(1, 10), gap{}); got.Holder != nil || got.Holders != 0 {
		t.Errorf("after an unanswered poll: %+v, want nothing said about the present", got)
	}
}

func TestHistogramSharesNothingBetweenSnapshots(t *testing.T) {
	first := newHistogram(1, 5)
	second := first.with(3 * time.Second)
	if first.Count != 0 || first.Buckets[5] != 0 {
		t.Errorf("the older snapshot changed: %+v", first)
	}
	if second.Count != 1 || second.Sum != 3 || second.Buckets[1] != 0 || second.Buckets[5] != 1 {
		t.Errorf("histogram of one observation of 3 s: %+v", second)
	}
}
