package lockwatch_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/lockkey"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// pollResuming polls the leader's lock once, by a new watcher that resumes the terms.
func pollResuming(t *testing.T, dsn string, resume []lockwatch.Term) lockwatch.Snapshot {
	t.Helper()
	w, err := lockwatch.New(lockwatch.Config{
		ConnConfig: func() (*pgx.ConnConfig, error) { return pgx.ParseConfig(dsn) },
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

// A watcher that resumes a term goes on with it when it finds the same backend, and ends it when it finds another one; a term
// of a lock that is not configured any more, and one that has ended, are not resumed. One of another server or key is left as it was.
func TestResumedTermGoesOnOrEnds(t *testing.T) {
	db := pgtest.Database(t)
	poll := func(resume ...lockwatch.Term) lockwatch.Snapshot {
		t.Helper()
		return pollResuming(t, db.DSN, resume)
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

	if begun.Key != lockkey.BackgroundLeader() || begun.Server.SystemIdentifier == 0 || !begun.Server.Started.Before(begun.Holder.BackendStart) {
		t.Errorf("the term is of key %v on %+v", begun.Key, begun.Server)
	}
	over, elsewhere, otherKey, otherServer := begun, begun, begun, begun
	over.End = begun.LastSeen
	elsewhere.Lock = "another"
	otherKey.Key = lockkey.Bigint(7)
	otherServer.Server.SystemIdentifier++
	for name, term := range map[string]lockwatch.Term{"ended": over, "of another lock": elsewhere, "of another key": otherKey, "of another server": otherServer} {
		if s := poll(term); len(s.Changes) != 1 || s.Changes[0].Holder.TermStart.Equal(begun.Holder.TermStart) {
			t.Errorf("%s: changes %+v, want a term that begins now", name, s.Changes)
		}
	}

	before, blind := begun, begun
	before.Server.Started = begun.Server.Started.Add(-time.Hour)
	if s := poll(before); len(s.Changes) != 2 || s.Changes[0].End.IsZero() {
		t.Errorf("before a restart of the server: changes %+v, want its end and a begin", s.Changes)
	}
	blind.Holder.BackendStart = time.Time{}
	if s := poll(blind, begun); len(s.Changes) != 1 || s.Changes[0].End.IsZero() {
		t.Errorf("resumed twice: changes %+v, want one of the two to end", s.Changes)
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

// A role that sees no more than the pid goes on with a term all the same, and a restart of the server ends it; without the right
// to call pg_control_system it does so too.
func TestTermOfABlindRoleGoesOnUntilTheServerRestarts(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{})
	for _, sql := range []string{"CREATE ROLE blind LOGIN", "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC", "CREATE ROLE sees LOGIN", "GRANT EXECUTE ON FUNCTION pg_control_system() TO sees"} {
		if err := server.Exec(t.Context(), "postgres", sql); err != nil {
			t.Fatal(err)
		}
	}
	poll := func(role string, resume ...lockwatch.Term) lockwatch.Snapshot {
		t.Helper()
		return pollResuming(t, strings.Replace(server.DSN("postgres"), "postgres@", role+"@", 1), resume)
	}
	begun := make(map[string]lockwatch.Term)
	exec(t, connectAs(t, server.DSN("postgres"), ""), takeLock)
	for _, role := range []string{"blind", "sees"} {
		term := *poll(role).Locks[0].Term
		if !term.Holder.BackendStart.IsZero() || (term.Server.SystemIdentifier == 0) != (role == "blind") || term.Server.Started.IsZero() {
			t.Errorf("%s: term %+v", role, term)
		}
		if s := poll(role, term); len(s.Changes) != 0 || !s.Locks[0].Term.Holder.TermStart.Equal(term.Holder.TermStart) {
			t.Errorf("%s: resumed: changes %+v, want the term to go on", role, s.Changes)
		}
		begun[role] = term
	}
	if err := server.Stop(pgserver.Fast); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	holder := connectAs(t, server.DSN("postgres"), "")
	exec(t, holder, takeLock)
	for role, term := range begun {
		term.Holder.PID = holder.PgConn().PID() // as in a container, where the same pids come back
		if s := poll(role, term); len(s.Changes) != 2 || !s.Changes[0].End.Equal(s.ServerTime) {
			t.Errorf("%s: after a restart: changes %+v, want an end and a begin", role, s.Changes)
		}
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
	t.Cleanup(func() { _ = holder.Close(context.Background()) }) // one that nobody refers to is closed by the garbage collector
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

// A database that takes no connections any more, or is a template now, is followed on, by a later watcher too where a term goes on in it; one
// that was so from the start is not.
func TestDatabaseIsFollowedAsLongAsItExists(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{})
	admin := connectAs(t, server.DSN("postgres"), "")
	exec(t, admin, "CREATE DATABASE followed")
	exec(t, connectAs(t, server.DSN("followed"), ""), takeLock)
	cfg := lockwatch.Config{
		ConnConfig:   func() (*pgx.ConnConfig, error) { return pgx.ParseConfig(server.DSN("postgres")) },
		Locks:        []lockwatch.Lock{{Name: "leader", Key: lockkey.BackgroundLeader(), Databases: []string{lockwatch.AllDatabases}}},
		PollInterval: pollInterval, MaxDutyCycle: 1,
	}
	w, _ := run(t, cfg)
	s := await(t, w, "held", func(s lockwatch.Snapshot) bool { return exclusive(s, "leader", "followed") })
	begun, _ := state(s, "leader", "followed")
	for _, change := range []string{"ALLOW_CONNECTIONS false", "IS_TEMPLATE true"} {
		exec(t, admin, "ALTER DATABASE followed "+change)
		polled := w.Snapshot().PollDuration.Count
		s = await(t, w, "two polls later", func(s lockwatch.Snapshot) bool { return s.PollDuration.Count > polled+2 })
		if l, _ := state(s, "leader", "followed"); l.Term == nil || !l.Term.Holder.TermStart.Equal(begun.Term.Holder.TermStart) || l.Terms != 1 || len(s.Locks) != 2 {
			t.Errorf("after %s: %+v of %d locks, want the term of %v to go on, and no template beside it", change, l, len(s.Locks), begun.Term)
		}
	}
	cfg.Resume = []lockwatch.Term{*begun.Term}
	again, _ := run(t, cfg)
	s = await(t, again, "up", func(s lockwatch.Snapshot) bool { return s.Up })
	if l, _ := state(s, "leader", "followed"); l.Term == nil || !l.Term.Holder.TermStart.Equal(begun.Term.Holder.TermStart) {
		t.Errorf("resumed: %+v, want the term of %v to go on", l, begun.Term)
	}
}
