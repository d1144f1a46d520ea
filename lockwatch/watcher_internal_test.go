package lockwatch

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/lockkey"
)

// failing returns a watcher that never connects.
func failing(t *testing.T) *Watcher {
	t.Helper()
	w, err := New(Config{
		Locks:      []Lock{{Name: "l", Key: lockkey.BackgroundLeader()}},
		ConnConfig: func() (*pgx.ConnConfig, error) { return nil, errors.New("no") },
		Logger:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestFailedPollChangesNoOlderSnapshotAndNoLastSuccess(t *testing.T) {
	w := failing(t)
	before := w.Snapshot()
	after, _ := w.Poll(t.Context())
	if before.Failures[ReasonConnect] != 0 || after.Failures[ReasonConnect] != 1 || !after.LastSuccess.IsZero() {
		t.Errorf("before %v, after %v, last success %v", before.Failures, after.Failures, after.LastSuccess)
	}
}

func TestEndOfTheWatchIsNoFailure(t *testing.T) {
	w := failing(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := w.Poll(ctx); !errors.Is(err, context.Canceled) || s.Failures[ReasonConnect] != 0 || !s.At.IsZero() {
		t.Errorf("%v, %+v", err, s)
	}
}

func TestTermStartIsTheServersClock(t *testing.T) {
	books, server := newTerms("db", Lock{Name: "l"}), time.Unix(1000, 0)
	books.observe(observation{at: time.Now(), serverNow: server, holders: 1, holder: &Holder{PID: 1}})
	if got := books.state.Holder.TermStart; !got.Equal(server) {
		t.Errorf("TermStart %v, want %v", got, server)
	}
}

// The session can neither write nor work longer than a poll may take.
func TestSessionRefusesToWrite(t *testing.T) {
	db := pgtest.Database(t)
	w := failing(t)
	w.cfg.ConnConfig = func() (*pgx.ConnConfig, error) { return pgx.ParseConfig(db.DSN) }
	conn, _, err := w.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer closeNow(conn)
	var bound string
	if err := conn.QueryRow(t.Context(), "SHOW statement_timeout").Scan(&bound); err != nil || bound != "5s" {
		t.Errorf("statement_timeout %q, %v", bound, err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE TABLE t ()"); err == nil {
		t.Error("the session can write")
	}
}

func TestEveryFailureHasItsReason(t *testing.T) {
	for code, want := range map[string]Reason{
		"28P01": ReasonAuth, "28000": ReasonAuth, "42501": ReasonPermission, "57014": ReasonTimeout,
		"57P01": ReasonConnect, "57P03": ReasonConnect, "08006": ReasonConnect, "XX000": ReasonQuery, "42P01": ReasonQuery,
	} {
		if got := reasonOf(&pgconn.PgError{Code: code}); got != want {
			t.Errorf("SQLSTATE %s: %s, want %s", code, got, want)
		}
	}
	connecting := &connectError{&pgconn.PgError{Code: "53300"}}
	if got := reasonOf(connecting); got != ReasonConnect {
		t.Errorf("too many clients: %s, want connect", got)
	}
	if got := reasonOf(&connectError{context.DeadlineExceeded}); got != ReasonTimeout {
		t.Errorf("a connect that took too long: %s, want timeout", got)
	}
}

func TestHeartbeatIsNeverNegativeWhenItIsKnown(t *testing.T) {
	ahead := -0.5 // the clock that moved was the server's
	if got := holderOf(row{heartbeatSeconds: &ahead}).HeartbeatAge; got != 0 {
		t.Errorf("heartbeat age %v, want 0", got)
	}
}

// A session that holds the lock in two modes is one holder; a prepared transaction has no pid.
func TestHoldersAreSessionsNotRows(t *testing.T) {
	yes, no, one, two, first := true, false, int32(1), int32(2), int64(1)
	got := digest([]row{
		{datname: "a", lock: &first, pid: &one, granted: &yes, exclusive: &yes},
		{datname: "a", lock: &first, pid: &one, granted: &yes, exclusive: &no},
		{datname: "a", lock: &first, pid: &two, granted: &no, exclusive: &no},
		{datname: "b", lock: &first, pid: &one, granted: &yes, exclusive: &no},
		{datname: "b", lock: &first, pid: &two, granted: &yes, exclusive: &no},
		{datname: "c"},
	}, 1)
	if o := got.databases["a"].observations[0]; o.holders != 1 || o.waiters != 1 || o.holder == nil || o.holder.PID != 1 {
		t.Errorf("%d holders, %d waiters, holder %+v; want 1, 1, pid 1", o.holders, o.waiters, o.holder)
	}
	if o := got.databases["b"].observations[0]; o.holders != 2 || o.holder != nil {
		t.Errorf("two that share: %d holders, holder %+v", o.holders, o.holder)
	}
	if o := got.databases["c"].observations[0]; o.holders != 0 || o.waiters != 0 || o.holder != nil {
		t.Errorf("nobody: %+v", o)
	}
}

// of returns an answer about the own database of a server, with one lock.
func of(datname string, serverNow time.Time, holder *Holder) answer {
	return answer{serverNow: serverNow, databases: map[string]databaseAnswer{
		datname: {datname: datname, own: true, observations: []observation{{holder: holder}}},
	}}
}

// Time in which this process stood still is not known: neither unheld nor a handover of no time.
func TestTimeWithoutPollsIsNotKnown(t *testing.T) {
	w := failing(t)
	begin := time.Now()
	see := func(offset time.Duration, holder *Holder) {
		w.books.enter(of("db", begin.Add(offset), holder), true, begin.Add(offset), time.Second)
	}
	see(0, nil)
	see(time.Hour, nil)
	see(time.Hour+time.Second, &Holder{PID: 1})
	see(2*time.Hour, &Holder{PID: 2})
	if got := w.books.states()[0]; got.Unheld != time.Second || got.Handover.Count != 0 || got.Terms != 2 {
		t.Errorf("unheld %v, %d handovers, %d terms; want 1s, 0, 2", got.Unheld, got.Handover.Count, got.Terms)
	}
}

// A secret that names another database begins other books.
func TestAnotherDatabaseHasBooksOfItsOwn(t *testing.T) {
	w := failing(t)
	begin := time.Now()
	w.books.enter(of("a", begin, &Holder{PID: 1}), true, begin, time.Second)
	w.books.enter(of("b", begin, nil), true, begin.Add(time.Second), time.Second)
	got := w.books.states()
	if len(got) != 1 || got[0].Datname != "b" || got[0].Terms != 0 || got[0].Unheld != 0 {
		t.Errorf("books %+v, want fresh ones of b alone", got)
	}
}

// The time between two polls grows with what the server spends in the statement, at once; the log waits until it is sure.
func TestPaceKeepsToTheDutyCycle(t *testing.T) {
	var log strings.Builder
	d := &diary{logger: slog.New(slog.NewTextHandler(&log, nil))}
	p := pace{cfg: Config{}.withDefaults()}
	require := func(spent, want time.Duration, lines int) {
		t.Helper()
		p.note(spent, spent, d)
		if got := p.interval(); got != want {
			t.Errorf("after a statement of %v: %v between polls, want %v", spent, got, want)
		}
		if got := strings.Count(log.String(), "\n"); got != lines {
			t.Errorf("%d lines, want %d:\n%s", got, lines, log.String())
		}
	}
	require(time.Millisecond, time.Second, 0)
	require(20*time.Millisecond, time.Second, 0)
	require(170*time.Millisecond, 8500*time.Millisecond, 0)
	require(time.Millisecond, time.Second, 0) // one slow poll is no news
	for range 2 {
		require(170*time.Millisecond, 8500*time.Millisecond, 0)
	}
	require(200*time.Millisecond, 10*time.Second, 1)
	require(300*time.Millisecond, 15*time.Second, 1)
	require(0, 15*time.Second, 1) // not answered
	for range 2 {
		require(time.Millisecond, time.Second, 1)
	}
	require(time.Millisecond, time.Second, 2)
	for _, test := range []struct{ took, told, want time.Duration }{
		{110 * time.Millisecond, 100 * time.Millisecond, 5500 * time.Millisecond}, // what comes after the last row counts
		{time.Second, 100 * time.Millisecond, 6250 * time.Millisecond},            // a slow network does not, for the most part
	} {
		if p.note(test.took, test.told, d); p.interval() != test.want {
			t.Errorf("a poll of %v, of which the server tells %v: %v between polls, want %v", test.took, test.told, p.interval(), test.want)
		}
	}
	for _, want := range []string{"level=WARN msg=\"reading pg_locks takes long", "statement=200ms interval=10s", "level=INFO msg=\"polling as often as configured again\" interval=1s"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in\n%s", want, log.String())
		}
	}
}

// Where a poll takes longer than the interval, the time between two polls is what it takes.
func TestFreshAllowsForSlowPolls(t *testing.T) {
	at := time.Now()
	s := Snapshot{Up: true, At: at, Interval: time.Second, Took: 4 * time.Second}
	if !s.Fresh(at.Add(12*time.Second)) || s.Fresh(at.Add(12*time.Second+1)) {
		t.Error("polls of 4 s: want fresh for 12 s and no longer")
	}
	s.Took = 0
	if !s.Fresh(at.Add(3*time.Second)) || s.Fresh(at.Add(3*time.Second+1)) {
		t.Error("quick polls: want fresh for three intervals and no longer")
	}
}
