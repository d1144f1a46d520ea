package pgbouncer_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/plexsphere/leader-exporter/internal/pgbouncer"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// start starts a PgBouncer before the database's server and returns it with the connection string of the database.
func start(t *testing.T, opts pgbouncer.Options) (b *pgbouncer.Bouncer, dsn string) {
	t.Helper()
	db := pgtest.Database(t)
	opts.Server = db.Server
	b, err := pgbouncer.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	dsn = b.DSN(db.Name)
	return b, dsn
}

func connect(t *testing.T, dsn string) *pgconn.PgConn {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// ask returns the one value that a statement answers over the simple protocol, within 10 s.
func ask(t *testing.T, conn *pgconn.PgConn, sql string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return string(results[0].Rows[0][0])
}

const (
	showPID  = "SELECT pg_backend_pid()"
	showWork = "SHOW work_mem"
	setWork  = "SELECT set_config('work_mem', '7MB', false)"
)

func TestSessionModeKeepsASettingBetweenStatements(t *testing.T) {
	_, dsn := start(t, pgbouncer.Options{PoolSize: 2})
	a, b := connect(t, dsn), connect(t, dsn)
	ask(t, a, setWork)
	if pidA, pidB := ask(t, a, showPID), ask(t, b, showPID); pidA == pidB {
		t.Errorf("two clients have backend %s; want one each", pidA)
	}
	if got := ask(t, a, showWork); got != "7MB" {
		t.Errorf("work_mem of the client that set it = %s, want 7MB", got)
	}
	if got := ask(t, b, showWork); got == "7MB" {
		t.Errorf("work_mem of the other client = %s, want the default", got)
	}
}

func TestTransactionModeHandsOneBackendToTwoClients(t *testing.T) {
	_, dsn := start(t, pgbouncer.Options{Mode: "transaction", PoolSize: 1})
	a, b := connect(t, dsn), connect(t, dsn)
	ask(t, a, setWork)
	if pidA, pidB := ask(t, a, showPID), ask(t, b, showPID); pidA != pidB {
		t.Errorf("two clients have backends %s and %s; want the same", pidA, pidB)
	}
	if got := ask(t, b, showWork); got != "7MB" {
		t.Errorf("work_mem of the client that did not set it = %s, want the other's 7MB", got)
	}
}

// What a client takes for its process id tells a pooler from a server.
func TestProcessIDIsNotTheBackends(t *testing.T) {
	for _, mode := range []string{"session", "transaction", "statement"} {
		_, dsn := start(t, pgbouncer.Options{Mode: mode})
		conn := connect(t, dsn)
		if pid := strconv.FormatUint(uint64(conn.PID()), 10); pid == ask(t, conn, showPID) {
			t.Errorf("%s mode: process id %s is the backend's", mode, pid)
		}
	}
}

func TestReloadChangesTheModeOfConnectedClients(t *testing.T) {
	bouncer, dsn := start(t, pgbouncer.Options{Mode: "session", PoolSize: 2})
	a, b := connect(t, dsn), connect(t, dsn)
	if pidA, pidB := ask(t, a, showPID), ask(t, b, showPID); pidA == pidB {
		t.Fatalf("two clients of a session pool have backend %s", pidA)
	}
	if err := bouncer.Reload(t.Context(), "transaction"); err != nil {
		t.Fatal(err)
	}
	// Each gives its backend back after its next statement, and then takes the one that was given back last or first.
	ask(t, a, showPID)
	ask(t, b, showPID)
	if pidA, pidB := ask(t, a, showPID), ask(t, b, showPID); pidA != pidB {
		t.Errorf("two clients that take turns have backends %s and %s after the change to transaction mode", pidA, pidB)
	}
}

func TestReloadRefusesAnUnknownMode(t *testing.T) {
	bouncer, dsn := start(t, pgbouncer.Options{})
	if err := bouncer.Reload(t.Context(), "sessions"); err == nil || !strings.Contains(err.Error(), "pgbouncer: ") {
		t.Errorf("Reload with an unknown mode: %v", err)
	}
	ask(t, connect(t, dsn), showPID)
}

func TestConsolePausesAndResumes(t *testing.T) {
	bouncer, dsn := start(t, pgbouncer.Options{Mode: "transaction"})
	conn := connect(t, dsn)
	ask(t, conn, showPID)
	if err := bouncer.Admin(t.Context(), "PAUSE"); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), showPID).ReadAll()
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a paused PgBouncer answered: %v", err)
	case <-time.After(100 * time.Millisecond): // the absence of an answer is no fact to wait for
	}
	if err := bouncer.Admin(t.Context(), "RESUME"); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := bouncer.Admin(t.Context(), "NONSENSE"); err == nil || !strings.Contains(err.Error(), "pgbouncer: run NONSENSE") {
		t.Errorf("Admin of an unknown command: %v", err)
	}
}

func TestStartSaysWhyItDidNotComeUp(t *testing.T) {
	server := pgtest.Database(t).Server
	squatter, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	_, port, _ := net.SplitHostPort(squatter.Addr().String())
	for name, test := range map[string]struct {
		opts pgbouncer.Options
		want string
	}{
		"unknown mode":  {pgbouncer.Options{Mode: "sessions"}, `pool_mode "sessions"`},
		"wrong setting": {pgbouncer.Options{Settings: map[string]string{"auth_type": "faith"}}, "auth_type"},
		"taken port":    {pgbouncer.Options{Settings: map[string]string{"listen_port": port}}, "nowhere to listen on"},
	} {
		test.opts.Server = server
		b, err := pgbouncer.Start(t.Context(), test.opts)
		if err == nil {
			t.Errorf("%s: no error from Start, and %v from Close", name, b.Close())
		} else if text := fmt.Sprint(err); !strings.HasPrefix(text, "pgbouncer: start: ") || !strings.Contains(text, test.want) {
			t.Errorf("%s: Start = %v, want %q in it", name, err, test.want)
		}
	}
}

func TestCloseEndsEverythingTwice(t *testing.T) {
	bouncer, dsn := start(t, pgbouncer.Options{})
	for range 2 {
		if err := bouncer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pgconn.Connect(t.Context(), dsn); err == nil {
		t.Error("a closed PgBouncer lets clients in")
	}
}
