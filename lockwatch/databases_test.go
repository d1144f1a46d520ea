package lockwatch_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/internal/syncbuf"
	"github.com/plexsphere/leader-exporter/lockkey"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// watchLocks runs a watcher of these locks, with that share of the server's time, through a connection to the database postgres
// until the test ends.
func watchLocks(t *testing.T, server *pgserver.Server, every time.Duration, share float64, locks ...lockwatch.Lock) (*lockwatch.Watcher, *syncbuf.Buffer) {
	t.Helper()
	return run(t, lockwatch.Config{
		ConnConfig:   func() (*pgx.ConnConfig, error) { return pgx.ParseConfig(server.DSN("postgres")) },
		Locks:        locks,
		PollInterval: every,
		MaxDutyCycle: share,
	})
}

// state returns what the snapshot says of the lock in the database.
func state(s lockwatch.Snapshot, lock, datname string) (lockwatch.LockState, bool) {
	for _, l := range s.Locks {
		if l.Lock == lock && l.Datname == datname {
			return l, true
		}
	}
	return lockwatch.LockState{}, false
}

func exclusive(s lockwatch.Snapshot, lock, datname string) bool {
	l, _ := state(s, lock, datname)
	return l.Known && l.Holder != nil
}

// backends counts the sessions of exporters on the server.
func backends(t *testing.T, conn *pgx.Conn) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leader-exporter'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// One connection watches every lock in every database, right after each of 200 changes of the holder.
func TestLoadAllDatabasesThroughOneConnection(t *testing.T) {
	const databases, changes = 50, 200
	server := pgtest.Cluster(t, pgserver.Options{})
	admin := connectAs(t, server.DSN("postgres"), "")
	name := func(i int) string { return fmt.Sprintf("tenant%02d", i) }
	for i := range databases {
		exec(t, admin, "CREATE DATABASE "+name(i)+" STRATEGY file_copy")
	}
	w, _ := watchLocks(t, server, pollInterval, 1, lockwatch.Lock{Name: "background-leader", Key: lockkey.BackgroundLeader(), Databases: []string{lockwatch.AllDatabases}})
	await(t, w, "a state for each database, and for postgres", func(s lockwatch.Snapshot) bool { return s.Up && len(s.Locks) == databases+1 })

	random := rand.New(rand.NewPCG(1, 2))
	leaders := make(map[int]*pgx.Conn)
	terms := make(map[int]uint64)
	for change := range changes {
		i := random.IntN(databases)
		if conn := leaders[i]; conn != nil {
			if err := conn.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			delete(leaders, i)
			await(t, w, "the lock is free", func(s lockwatch.Snapshot) bool {
				l, known := state(s, "background-leader", name(i))
				return known && l.Known && l.Holder == nil
			})
			continue
		}
		conn := connectAs(t, server.DSN(name(i)), fmt.Sprintf("&application_name=leader-%d", change))
		exec(t, conn, takeLock)
		leaders[i] = conn
		terms[i]++
		await(t, w, "the new holder", func(s lockwatch.Snapshot) bool {
			l, _ := state(s, "background-leader", name(i))
			return l.Holder != nil && l.Holder.PID == conn.PgConn().PID() && l.Holder.ApplicationName == fmt.Sprintf("leader-%d", change)
		})
	}
	s := w.Snapshot()
	for i := range databases {
		l, _ := state(s, "background-leader", name(i))
		if l.Terms != terms[i] || (l.Holder != nil) != (leaders[i] != nil) {
			t.Errorf("%s: %d terms, holder %+v; want %d terms, held %v", name(i), l.Terms, l.Holder, terms[i], leaders[i] != nil)
		}
	}
	if n := backends(t, admin); n != 1 {
		t.Errorf("%d backends, want 1", n)
	}
}

// Several locks of both key spaces, in databases of their own choice, are told apart.
func TestSeveralLocksAreToldApart(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{})
	admin := connectAs(t, server.DSN("postgres"), "")
	for _, name := range []string{"a", "b"} {
		exec(t, admin, "CREATE DATABASE "+name)
	}
	w, _ := watchLocks(t, server, pollInterval, 1,
		lockwatch.Lock{Name: "leader", Key: lockkey.BackgroundLeader(), Databases: []string{"a", "b"}},
		lockwatch.Lock{Name: "mail", Key: lockkey.Bigint(1886156915<<32 | 1), Databases: []string{"a"}},
		lockwatch.Lock{Name: "own", Key: lockkey.Bigint(-7)},
	)
	s := await(t, w, "up", func(s lockwatch.Snapshot) bool { return s.Up })
	var got []string
	for _, l := range s.Locks {
		got = append(got, l.Lock+" in "+l.Datname)
	}
	if want := "leader in a, leader in b, mail in a, own in postgres"; strings.Join(got, ", ") != want {
		t.Errorf("states %q, want %s", got, want)
	}
	for _, held := range []struct{ database, take, lock string }{
		{"b", takeLock, "leader"},
		{"a", "SELECT pg_advisory_lock((1886156915::bigint << 32) | 1)", "mail"},
		{"postgres", "SELECT pg_advisory_lock(-7)", "own"},
	} {
		exec(t, connectAs(t, server.DSN(held.database), ""), held.take)
		await(t, w, held.lock+" is held", func(s lockwatch.Snapshot) bool { return exclusive(s, held.lock, held.database) })
	}
	if exclusive(w.Snapshot(), "leader", "a") {
		t.Error("the lock of database a is told as held")
	}
}

// E18, E33: a database that is not there is unknown, not unheld; the others are told, and without any the target is down.
func TestMissingDatabaseIsUnknown(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{})
	admin := connectAs(t, server.DSN("postgres"), "")
	exec(t, admin, "CREATE DATABASE plexsphere")
	exec(t, admin, "CREATE DATABASE other")
	both, bothLog := watchLocks(t, server, pollInterval, 1,
		lockwatch.Lock{Name: "leader", Key: lockkey.BackgroundLeader(), Databases: []string{"plexsphere", "other"}})
	one, oneLog := watchLocks(t, server, pollInterval, 1,
		lockwatch.Lock{Name: "leader", Key: lockkey.BackgroundLeader(), Databases: []string{"plexsphere"}})
	holder := connectAs(t, server.DSN("plexsphere"), "")
	exec(t, holder, takeLock)
	for _, w := range []*lockwatch.Watcher{both, one} {
		await(t, w, "held", func(s lockwatch.Snapshot) bool { return exclusive(s, "leader", "plexsphere") })
	}
	if err := holder.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec(t, admin, "DROP DATABASE plexsphere") // the watchers are connected elsewhere and are not in its way

	s := await(t, both, "the dropped database is unknown", func(s lockwatch.Snapshot) bool {
		l, there := state(s, "leader", "plexsphere")
		return there && !l.Known
	})
	if l, _ := state(s, "leader", "plexsphere"); l.Terms != 1 || l.Holder != nil || !s.Up {
		t.Errorf("%+v, up %v", l, s.Up)
	}
	if l, _ := state(s, "leader", "other"); !l.Known {
		t.Error("the other database is unknown too")
	}
	s = await(t, one, "down", isDown)
	if s.Failures[lockwatch.ReasonConnect] == 0 {
		t.Errorf("failures %v", s.Failures)
	}
	pgtest.Eventually(t, patience, "the logs name the database", func() (bool, string) {
		return strings.Contains(bothLog.String(), "databases=[plexsphere]") &&
			strings.Contains(oneLog.String(), `error="database not found: plexsphere"`), bothLog.String() + oneLog.String()
	})
	exec(t, admin, "CREATE DATABASE plexsphere")
	await(t, one, "up again, its books go on", func(s lockwatch.Snapshot) bool {
		l, _ := state(s, "leader", "plexsphere")
		return s.Up && l.Known && l.Terms == 1
	})
}

// A holder whose application_name matches no expected pattern is foreign.
func TestForeignHolder(t *testing.T) {
	db := pgtest.Database(t)
	w, _ := watchLocks(t, db.Server, pollInterval, 1, lockwatch.Lock{
		Name: "leader", Key: lockkey.BackgroundLeader(), Databases: []string{db.Name}, ExpectedApplicationNames: []string{"plexsphere-?", "api*"},
	})
	for name, foreign := range map[string]bool{"plexsphere-1": false, "api": false, "psql": true, "": true, "plexsphere-12": true} {
		conn := connectAs(t, db.DSN, "&application_name="+name)
		exec(t, conn, takeLock)
		s := await(t, w, "held by "+name, func(s lockwatch.Snapshot) bool {
			l, _ := state(s, "leader", db.Name)
			return l.Holder != nil && l.Holder.PID == conn.PgConn().PID()
		})
		if l, _ := state(s, "leader", db.Name); !l.Expected || l.Holder.Foreign != foreign {
			t.Errorf("application_name %q: foreign %v, want %v", name, l.Holder.Foreign, foreign)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// 100 thousand locks on the server: the watcher keeps to its share of time, says so once, still names the holder, and comes
// back when the locks go.
func TestLoadDutyCycleAtAHundredThousandLocks(t *testing.T) {
	const (
		locks = 100_000
		every = 200 * time.Millisecond
	)
	server := pgtest.Cluster(t, pgserver.Options{Settings: map[string]string{"max_locks_per_transaction": "2048"}})
	w, log := watchLocks(t, server, every, 0, lockwatch.Lock{Name: "leader", Key: lockkey.BackgroundLeader()})
	await(t, w, "up", func(s lockwatch.Snapshot) bool { return s.Up })
	crowd := connectAs(t, server.DSN("postgres"), "")
	exec(t, crowd, fmt.Sprintf("SELECT count(pg_advisory_lock(n)) FROM generate_series(1, %d) n", locks))
	holder := connectAs(t, server.DSN("postgres"), "")
	exec(t, holder, takeLock)
	s := await(t, w, "the holder among many", func(s lockwatch.Snapshot) bool {
		return s.ServerLocks >= locks && exclusive(s, "leader", "postgres")
	})
	if l, _ := state(s, "leader", "postgres"); l.Holder.PID != holder.PgConn().PID() {
		t.Errorf("holder %+v", l.Holder)
	}
	polls := func(n uint64) lockwatch.Snapshot {
		from := w.Snapshot().PollDuration.Count
		pgtest.Eventually(t, 5*patience, fmt.Sprintf("%d polls at the slower pace", n), func() (bool, string) {
			s := w.Snapshot()
			return s.PollDuration.Count >= from+n, fmt.Sprint(s.Interval)
		})
		return w.Snapshot()
	}
	if s = polls(2); s.Interval < 5*every {
		t.Errorf("%v between two polls that take %v", s.Interval, s.Took)
	}
	spent, begin := s.PollDuration.Sum, time.Now()
	s = polls(3)
	share := (s.PollDuration.Sum - spent) / time.Since(begin).Seconds()
	fmt.Printf("duty cycle: %d locks: a poll takes %v, one every %v: %.2f %% of the time, 2 allowed\n", locks, s.Took.Round(time.Millisecond), s.Interval.Round(time.Millisecond), 100*share)
	if share > 0.03 { // polls are measured from here, with scheduling and network
		t.Errorf("%.2f %% of the time in polls, want at most 2", 100*share)
	}
	if n := strings.Count(log.String(), "polling less often"); n != 1 {
		t.Errorf("%d lines, want 1:\n%s", n, log)
	}
	exec(t, crowd, "SELECT pg_advisory_unlock_all()")
	await(t, w, "the configured pace again", func(s lockwatch.Snapshot) bool { return s.Interval == every && s.ServerLocks < 100 })
	pgtest.Eventually(t, patience, "one line says so", func() (bool, string) {
		return strings.Count(log.String(), "polling as often as configured again") == 1, log.String()
	})
}
