package lockwatch_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/lockkey"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// A watcher that resumes a term goes on with it when it finds the same backend, and ends it when it finds another one; a term
// of a lock that is not configured any more, one that has ended, and one whose backend's start is not known are not resumed.
func TestResumedTermGoesOnOrEnds(t *testing.T) {
	db := pgtest.Database(t)
	poll := func(resume ...lockwatch.Term) lockwatch.Snapshot {
		t.Helper()
		w, err := lockwatch.New(lockwatch.Config{
			ConnConfig: func() (*pgx.ConnConfig, error) { return pgx.ParseConfig(db.DSN) },
			Locks:      []lockwatch.Lock{{Name: "leader", Key: lockkey.BackgroundLeader()}},
			Resume:     resume,
		})
		if err != nil {
			t.Fatal(err)
		}
		s, err := w.Poll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	lead := func() (holder *pgx.Conn) {
		holder = db.Connect(t)
		exec(t, holder, "SELECT pg_advisory_lock(1886156915, 1)")
		return holder
	}
	holder := lead()
	first := poll()
	if len(first.Changes) != 1 || first.Locks[0].Term == nil || !first.Changes[0].End.IsZero() {
		t.Fatalf("first look: changes %+v, term %+v", first.Changes, first.Locks[0].Term)
	}
	begun := first.Changes[0]

	again := poll(begun)
	if term := again.Locks[0].Term; len(again.Changes) != 0 || !term.Holder.TermStart.Equal(begun.Holder.TermStart) || !term.LastSeen.After(begun.LastSeen) {
		t.Errorf("resumed: changes %+v, term %+v; want the term of %v to go on", again.Changes, term, begun.Holder.TermStart)
	}
	if got := again.Locks[0].Holder.TermStart; !got.Equal(begun.Holder.TermStart) || again.Locks[0].Terms != 1 {
		t.Errorf("the holder's term starts at %v, %d terms; want %v and 1", got, again.Locks[0].Terms, begun.Holder.TermStart)
	}

	over, elsewhere, blind := begun, begun, begun
	over.End = begun.LastSeen
	elsewhere.Lock = "another"
	blind.Holder.BackendStart = time.Time{}
	for name, term := range map[string]lockwatch.Term{"ended": over, "of another lock": elsewhere, "of an unknown backend": blind} {
		if s := poll(term); len(s.Changes) != 1 || s.Changes[0].Holder.TermStart.Equal(begun.Holder.TermStart) {
			t.Errorf("%s: changes %+v, want a term that begins now", name, s.Changes)
		}
	}

	if err := holder.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, patience, "the lock is free", func() (bool, string) { return poll().Locks[0].Holder == nil, "" })
	lead()
	s := poll(begun)
	if len(s.Changes) != 2 || !s.Changes[0].LastSeen.Equal(begun.LastSeen) || !s.Changes[0].End.Equal(s.ServerTime) || s.Changes[1].Holder.PID == begun.Holder.PID {
		t.Errorf("another holder: changes %+v at %v, want the end of %+v and the begin of another", s.Changes, s.ServerTime, begun)
	}
}

// A database that is dropped takes its term with it.
func TestTermEndsWithItsDatabase(t *testing.T) {
	server := pgtest.Database(t)
	admin := server.Connect(t)
	exec(t, admin, "CREATE DATABASE term_ends_with_me")
	inside, err := pgx.ParseConfig(server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	inside.Database = "term_ends_with_me"
	holder, err := pgx.ConnectConfig(t.Context(), inside)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, holder, "SELECT pg_advisory_lock(1886156915, 1)")
	ended := make(chan lockwatch.Term, 1)
	w, _ := run(t, lockwatch.Config{
		ConnConfig:   func() (*pgx.ConnConfig, error) { return pgx.ParseConfig(server.DSN) },
		Locks:        []lockwatch.Lock{{Name: "leader", Key: lockkey.BackgroundLeader(), Databases: []string{lockwatch.AllDatabases}}},
		PollInterval: pollInterval, MaxDutyCycle: 1,
		OnSnapshot: func(s lockwatch.Snapshot) {
			for _, term := range s.Changes {
				if term.Datname == "term_ends_with_me" && !term.End.IsZero() {
					ended <- term
				}
			}
		},
	})
	await(t, w, "the term is seen", func(s lockwatch.Snapshot) bool {
		for _, lock := range s.Locks {
			if lock.Datname == "term_ends_with_me" && lock.Term != nil {
				return true
			}
		}
		return false
	})
	exec(t, admin, "DROP DATABASE term_ends_with_me WITH (FORCE)")
	if term := <-ended; term.End.Before(term.LastSeen) || term.Holder.PID == 0 {
		t.Errorf("term %+v", term)
	}
}
