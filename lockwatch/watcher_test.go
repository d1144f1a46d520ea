package lockwatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/internal/syncbuf"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
	"github.com/plexsphere/leader-exporter/lockkey"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

const (
	pollInterval = 20 * time.Millisecond
	patience     = 30 * time.Second
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// watch runs a watcher of the leader's lock on the database until the test ends.
func watch(t *testing.T, dsn string) (*lockwatch.Watcher, *syncbuf.Buffer) {
	t.Helper()
	return watchConfig(t, func() (*pgx.ConnConfig, error) { return pgx.ParseConfig(dsn) })
}

// watchConfig is watch for what no connection string can say.
func watchConfig(t *testing.T, connConfig func() (*pgx.ConnConfig, error)) (*lockwatch.Watcher, *syncbuf.Buffer) {
	t.Helper()
	return run(t, lockwatch.Config{
		ConnConfig:   connConfig,
		Locks:        []lockwatch.Lock{{Name: "background-leader", Key: lockkey.BackgroundLeader()}},
		PollInterval: pollInterval,
		MaxDutyCycle: 1, // these tests want to see soon
	})
}

// run runs a watcher until the test ends, and keeps what it logs.
func run(t *testing.T, cfg lockwatch.Config) (*lockwatch.Watcher, *syncbuf.Buffer) {
	t.Helper()
	log := &syncbuf.Buffer{}
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	w, err := lockwatch.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Run(ctx); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return w, log
}

// await waits until a snapshot satisfies the fact and returns it.
func await(t *testing.T, w *lockwatch.Watcher, fact string, holds func(lockwatch.Snapshot) bool) lockwatch.Snapshot {
	t.Helper()
	var s lockwatch.Snapshot
	pgtest.Eventually(t, patience, fact, func() (bool, string) {
		s = w.Snapshot()
		state := fmt.Sprintf("%+v", s)
		if holder := holderOf(s); holder != nil {
			state += fmt.Sprintf("\nholder %+v", *holder)
		}
		return holds(s), state
	})
	return s
}

func holderOf(s lockwatch.Snapshot) *lockwatch.Holder {
	if len(s.Locks) == 0 {
		return nil
	}
	return s.Locks[0].Holder
}

func isHeld(s lockwatch.Snapshot) bool   { return s.Up && holderOf(s) != nil }
func isUnheld(s lockwatch.Snapshot) bool { return s.Up && len(s.Locks) == 1 && holderOf(s) == nil }
func isDown(s lockwatch.Snapshot) bool   { return !s.Up && !s.At.IsZero() }

// connectAs connects with more settings in the connection string.
func connectAs(t *testing.T, dsn, more string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn+more)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

const takeLock = "SELECT pg_advisory_lock(1886156915, 1)"

func TestHolderIsToldAsTheServerKnowsIt(t *testing.T) {
	db := pgtest.Database(t)
	w, _ := watch(t, db.DSN)
	await(t, w, "unheld", isUnheld)
	conn := connectAs(t, db.DSN, "&application_name=replica-a")
	exec(t, conn, takeLock)
	s := await(t, w, "held", isHeld)
	state, holder := s.Locks[0], holderOf(s)
	if state.Datname != db.Name || state.Lock != "background-leader" || state.Holders != 1 || state.Terms != 1 {
		t.Errorf("lock state %+v", state)
	}
	if holder.PID != conn.PgConn().PID() || holder.ApplicationName != "replica-a" || holder.Usename != "postgres" ||
		holder.ClientAddr != "127.0.0.1" || !holder.Visible || holder.BackendStart.IsZero() || holder.HeartbeatAge < 0 {
		t.Errorf("holder %+v", holder)
	}
	waiter := db.Connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		_, _ = waiter.Exec(ctx, takeLock)
	}()
	await(t, w, "one waits", func(s lockwatch.Snapshot) bool { return s.Locks[0].Waiters == 1 && s.Locks[0].Holders == 1 })
	cancel()
	<-waited
	exec(t, conn, "SELECT pg_advisory_unlock(1886156915, 1)")
	await(t, w, "unheld again", isUnheld)
}

// E25: a holder on a unix socket has no address.
func TestHolderOnAUnixSocketHasNoAddress(t *testing.T) {
	db := pgtest.Database(t)
	w, _ := watch(t, db.DSN)
	conn := connectAs(t, fmt.Sprintf("user=postgres dbname=%s host=%s port=%d", db.Name, db.Server.SocketFolder(), db.Server.Port()), "")
	exec(t, conn, takeLock)
	if holder := holderOf(await(t, w, "held", isHeld)); holder.ClientAddr != "" || !holder.Visible {
		t.Errorf("holder %+v, want an empty address", holder)
	}
}

// E28: a role without grants still sees who holds the lock; it is told once what it lacks, which either grant gives it.
func TestRoleWithoutGrantsSeesThePid(t *testing.T) {
	for _, grant := range []string{"pg_read_all_stats", "pg_monitor"} {
		t.Run(grant, func(t *testing.T) { seesThePidAndWithTheGrantMore(t, grant) })
	}
}

func seesThePidAndWithTheGrantMore(t *testing.T, grant string) {
	t.Helper()
	db := pgtest.Database(t)
	admin := db.Connect(t)
	role := db.Name + "_plain"
	exec(t, admin, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() { _, _ = admin.Exec(context.Background(), "DROP ROLE "+role) })
	w, log := watch(t, strings.Replace(db.DSN, "postgres@", role+"@", 1))
	conn := connectAs(t, db.DSN, "&application_name=replica-a")
	exec(t, conn, takeLock)
	holder := holderOf(await(t, w, "held", isHeld))
	if holder.PID != conn.PgConn().PID() || holder.ApplicationName != "replica-a" || holder.Visible || holder.HeartbeatAge >= 0 || !holder.BackendStart.IsZero() {
		t.Errorf("holder %+v, want pid and name alone", holder)
	}
	polled := w.Snapshot().PollDuration.Count
	await(t, w, "five polls later", func(s lockwatch.Snapshot) bool { return s.PollDuration.Count > polled+5 })
	if got := strings.Count(log.String(), "pg_read_all_stats"); got != 1 {
		t.Errorf("%d warnings, want 1:\n%s", got, log.String())
	}
	exec(t, admin, "GRANT "+grant+" TO "+role)
	await(t, w, "visible with the grant", func(s lockwatch.Snapshot) bool { return isHeld(s) && holderOf(s).Visible })
}

// The exporter's own session can not write, and carries its name.
func TestSessionIsReadOnlyAndNamed(t *testing.T) {
	db := pgtest.Database(t)
	w, _ := watch(t, db.DSN)
	await(t, w, "unheld", isUnheld)
	var backends int
	err := db.Connect(t).QueryRow(t.Context(),
		"SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leader-exporter' AND datname = $1", db.Name).Scan(&backends)
	if err != nil || backends != 1 {
		t.Errorf("%d backends of the watcher, %v; want 1", backends, err)
	}
}

// A holder that shares the lock does not lead.
func TestSharedHoldersAreCountedButLeadNothing(t *testing.T) {
	db := pgtest.Database(t)
	w, _ := watch(t, db.DSN)
	for range 2 {
		exec(t, db.Connect(t), "SELECT pg_advisory_lock_shared(1886156915, 1)")
	}
	s := await(t, w, "two holders", func(s lockwatch.Snapshot) bool { return len(s.Locks) == 1 && s.Locks[0].Holders == 2 })
	if holderOf(s) != nil {
		t.Errorf("holder %+v, want none", holderOf(s))
	}
	await(t, w, "their time is counted", func(s lockwatch.Snapshot) bool { return s.Locks[0].MultipleHolders > 0 })
}

// Names of a SQL_ASCII database that are no UTF-8 do not break anything.
func TestNamesThatAreNoUTF8(t *testing.T) {
	db := pgtest.Database(t)
	const ascii = " ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
	outer := db.Name + "_ascii"
	exec(t, db.Connect(t), "CREATE DATABASE "+outer+ascii)
	t.Cleanup(func() { _ = db.Server.Exec(context.Background(), "postgres", "DROP DATABASE "+outer+" WITH (FORCE)") })
	// Only a SQL_ASCII session can name what is no UTF-8.
	name := outer + "_\xff"
	for _, sql := range []string{`CREATE DATABASE "` + name + `"` + ascii, `CREATE ROLE "` + name + `" LOGIN SUPERUSER`} {
		if err := db.Server.Exec(t.Context(), outer, sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, sql := range []string{`DROP DATABASE "` + name + `" WITH (FORCE)`, `DROP ROLE "` + name + `"`} {
			if err := db.Server.Exec(context.Background(), outer, sql); err != nil {
				t.Error(err)
			}
		}
	})
	connConfig := func() (*pgx.ConnConfig, error) {
		config, err := pgx.ParseConfig(db.DSN)
		if err == nil {
			config.User, config.Database = name, name
		}
		return config, err
	}
	config, err := connConfig()
	if err != nil {
		t.Fatal(err)
	}
	holder, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.Background())
	exec(t, holder, takeLock)
	w, _ := watchConfig(t, connConfig)
	s := await(t, w, "held", isHeld)
	if want := outer + "_\uFFFD"; holderOf(s).Usename != want || s.Locks[0].Datname != want {
		t.Errorf("usename %q, datname %q; want the bad byte replaced", holderOf(s).Usename, s.Locks[0].Datname)
	}
}

// E11: a pg_hba.conf that rejects us later is a failed login, and heals.
func TestRejectedLoginIsAnAuthFailure(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{})
	dsn := server.DSN("postgres")
	w, log := watch(t, dsn)
	admin := connectAs(t, fmt.Sprintf("user=postgres dbname=postgres host=%s port=%d", server.SocketFolder(), server.Port()), "")
	await(t, w, "up", isUnheld)
	if err := server.SetHBA(t.Context(), "local all all trust", "host all all all reject"); err != nil {
		t.Fatal(err)
	}
	exec(t, admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'leader-exporter'")
	s := await(t, w, "down for its login", func(s lockwatch.Snapshot) bool { return isDown(s) && s.Failures[lockwatch.ReasonAuth] > 2 })
	if s.Locks[0].Holder != nil || s.Locks[0].Holders != 0 {
		t.Errorf("a down target says %+v of its lock", s.Locks[0])
	}
	if got := strings.Count(log.String(), "target down"); got > 2 { // once for the ended session, once for the login
		t.Errorf("%d lines for one outage:\n%s", got, log.String())
	}
	if err := server.SetHBA(t.Context(), "local all all trust", "host all all all trust"); err != nil {
		t.Fatal(err)
	}
	await(t, w, "up again", isUnheld)
}

// E12, E19: a watcher that starts before its server, and outlives its stop, heals by itself.
func TestTargetThatIsDownHeals(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{})
	if err := server.Stop(pgserver.Fast); err != nil {
		t.Fatal(err)
	}
	w, log := watch(t, server.DSN("postgres"))
	if s := w.Snapshot(); s.Fresh(time.Now()) {
		t.Errorf("a snapshot before the first answer is fresh: %+v", s)
	}
	s := await(t, w, "down", func(s lockwatch.Snapshot) bool { return isDown(s) && s.Failures[lockwatch.ReasonConnect] > 1 })
	if len(s.Locks) != 0 {
		t.Errorf("locks of a server that never answered: %+v", s.Locks)
	}
	for _, mode := range []pgserver.Mode{pgserver.Fast, pgserver.Immediate} {
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		exec(t, connectAs(t, server.DSN("postgres"), ""), takeLock)
		await(t, w, "held", isHeld)
		if err := server.Stop(mode); err != nil {
			t.Fatal(err)
		}
		s := await(t, w, "down", isDown)
		if s.Locks[0].Holder != nil {
			t.Errorf("the last holder outlives its server: %+v", s.Locks[0].Holder)
		}
	}
	if got := strings.Count(log.String(), "target up"); got != 2 {
		t.Errorf("%d lines of a target that came up twice:\n%s", got, log.String())
	}
}

// A server that is stopped in its tracks is a timeout, and the watcher keeps no more than its one backend.
func TestPausedServerIsATimeout(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{})
	w, err := lockwatch.New(lockwatch.Config{
		ConnConfig:  func() (*pgx.ConnConfig, error) { return pgx.ParseConfig(server.DSN("postgres")) },
		Locks:       []lockwatch.Lock{{Name: "background-leader", Key: lockkey.BackgroundLeader()}},
		PollTimeout: 300 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	s, err := w.Poll(t.Context())
	if err == nil || s.Up || s.Failures[lockwatch.ReasonTimeout] != 1 || !strings.Contains(err.Error(), "within the poll timeout (300ms)") {
		t.Errorf("poll of a paused server: %v, %+v; want a timeout", err, s)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	if s, err := w.Poll(t.Context()); err != nil || !s.Up {
		t.Errorf("poll of the resumed server: %v, %+v", err, s)
	}
}

// The same key in another database, and the bigint whose halves equal the pair, are other locks.
func TestOtherLocksAreNotThisOne(t *testing.T) {
	db, other := pgtest.Database(t), pgtest.Database(t) // one server
	exec(t, other.Connect(t), takeLock)
	exec(t, db.Connect(t), "SELECT pg_advisory_lock((1886156915::bigint << 32) | 1)")
	w, _ := watch(t, db.DSN)
	s := await(t, w, "both are in pg_locks", func(s lockwatch.Snapshot) bool { return s.Up && s.ServerLocks >= 2 })
	if s.Locks[0].Holders != 0 || holderOf(s) != nil {
		t.Errorf("lock state %+v, want unheld", s.Locks[0])
	}
}

// The application_name of the connection string is kept.
func TestConnectionStringMayNameTheApplication(t *testing.T) {
	db := pgtest.Database(t)
	w, _ := watch(t, db.DSN+"&application_name=mine")
	await(t, w, "up", isUnheld)
	var n int
	if err := db.Connect(t).QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mine'").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d backends named mine, %v", n, err)
	}
}

// E32: a hot standby tells nothing of the primary's lock, whoever holds its own; once promoted it does.
func TestHotStandbyTellsNothingOfLocks(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{Standby: true})
	exec(t, connectAs(t, server.DSN("postgres"), ""), takeLock)
	w, _ := watch(t, server.DSN("postgres"))
	s := await(t, w, "in recovery", func(s lockwatch.Snapshot) bool { return s.Up && s.InRecovery })
	if len(s.Locks) != 0 {
		t.Errorf("locks of a hot standby: %+v", s.Locks)
	}
	if err := server.Exec(t.Context(), "postgres", "SELECT pg_promote()"); err != nil {
		t.Fatal(err)
	}
	await(t, w, "held", func(s lockwatch.Snapshot) bool { return isHeld(s) && !s.InRecovery })
}

// After a poll that took many intervals the next comes at once, and then one an interval: what was missed is not made up for.
func TestPollsThatWereMissedAreNotMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		w, err := lockwatch.New(lockwatch.Config{
			ConnConfig: func() (*pgx.ConnConfig, error) {
				if at = append(at, time.Since(begin)); len(at) == 2 {
					time.Sleep(10*time.Second + time.Millisecond)
				}
				return nil, errors.New("no")
			},
			Locks:  []lockwatch.Lock{{Name: "background-leader", Key: lockkey.BackgroundLeader()}},
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 14*time.Second)
		defer cancel()
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
		const late = 11*time.Second + time.Millisecond
		if want := []time.Duration{0, time.Second, late, late + time.Second, late + 2*time.Second}; !slices.Equal(at, want) {
			t.Errorf("polls at %v, want %v", at, want)
		}
	})
}

// A server older than 14 is refused by its name, before it is asked anything.
func TestServerOlderThan14IsRefusedByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := leadertest.NewServer(t)
		server.SetVersion("13.23 (Debian 13.23-1)")
		pool := server.Client("exporter").Pool(t)
		w, err := lockwatch.New(lockwatch.Config{
			ConnConfig: func() (*pgx.ConnConfig, error) { return pool.Config().ConnConfig, nil },
			Locks:      []lockwatch.Lock{{Name: "background-leader", Key: lockkey.BackgroundLeader()}},
			Logger:     slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		s, err := w.Poll(t.Context())
		if err == nil || s.Up || !strings.Contains(err.Error(), "the server is PostgreSQL 13.23 (Debian 13.23-1), 14 or newer is needed") {
			t.Errorf("Poll = %v, up %v; want the version named", err, s.Up)
		}
		if got := server.Statements(); len(got) != 0 {
			t.Errorf("it was asked %v", got)
		}
	})
}

func TestNewNamesEveryMissingField(t *testing.T) {
	_, err := lockwatch.New(lockwatch.Config{})
	if err == nil || !strings.Contains(err.Error(), "ConnConfig") || !strings.Contains(err.Error(), "Config.Locks is empty") {
		t.Errorf("New of an empty Config: %v", err)
	}
}
