// Package pgtest gives tests a database each on a cluster that the test binary shares, or a cluster of their own.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
)

// MajorVariable is the environment variable that names the major version on which the tests are meant to run. When it is set,
// tests on a server of another version fail.
const MajorVariable = "LEADER_EXPORTER_PG_MAJOR"

// fixture is what the tests of one binary share. A missing PostgreSQL fails the tests that need it.
type fixture struct {
	once     sync.Once
	template *pgserver.Template
	server   *pgserver.Server
	err      error
	counter  atomic.Int64
}

var shared fixture //nolint:gochecknoglobals // nothing else lives as long as the test binary

// Main runs the tests of a package, removes what they shared, and exits. Call it from TestMain.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for a TestMain that has more to do: it returns the exit code.
func Run(m *testing.M) int {
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// DB is a database of its own for one test.
type DB struct {
	Name   string
	DSN    string
	Server *pgserver.Server // shared: a test must not stop or reconfigure it
}

// Database creates a database that is dropped at the end of the test.
func Database(tb testing.TB) *DB {
	tb.Helper()
	server, _ := shared.open(tb)
	return On(tb, server)
}

// On creates a database on the given server that is dropped at the end of the test.
func On(tb testing.TB, server *pgserver.Server) *DB {
	tb.Helper()
	name := fmt.Sprintf("test_%d", shared.counter.Add(1))
	if err := server.Exec(tb.Context(), "postgres", "CREATE DATABASE "+name); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := server.Exec(context.Background(), "postgres", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			tb.Log(err) // the test may have stopped a server of its own
		}
	})
	return &DB{Name: name, DSN: server.DSN(name), Server: server}
}

// Cluster starts a server for one test alone, which it may stop, pause and reconfigure.
func Cluster(tb testing.TB, opts pgserver.Options) *pgserver.Server {
	tb.Helper()
	_, template := shared.open(tb)
	server, err := pgserver.Start(tb.Context(), template, opts)
	if err != nil {
		tb.Fatal(err)
	}
	closeAtEnd(tb, server)
	return server
}

// Standby starts a server that streams from the primary, which is a Cluster of the same test.
func Standby(tb testing.TB, primary *pgserver.Server, opts pgserver.Options) *pgserver.Server {
	tb.Helper()
	server, err := primary.Standby(tb.Context(), opts)
	if err != nil {
		tb.Fatal(err)
	}
	closeAtEnd(tb, server)
	return server
}

func closeAtEnd(tb testing.TB, server *pgserver.Server) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := server.Close(); err != nil {
			tb.Error(err)
		}
	})
}

// Pool returns a pool on the database that is closed at the end of the test.
func (db *DB) Pool(tb testing.TB, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(db.DSN)
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range configure {
		f(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

// Connect returns a connection to the database that is closed at the end of the test.
func (db *DB) Connect(tb testing.TB) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), db.DSN)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Eventually waits for a fact by looking every 10 ms, and fails with the last state it saw.
func Eventually(tb testing.TB, within time.Duration, fact string, look func() (holds bool, state string)) {
	tb.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(within); ; <-ticker.C {
		holds, state := look()
		if holds {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s; last seen:\n%s", within, fact, strings.TrimSpace(state))
		}
	}
}

// open returns what the test binary shares, made by the first call.
func (f *fixture) open(tb testing.TB) (*pgserver.Server, *pgserver.Template) {
	tb.Helper()
	f.once.Do(func() {
		var version string
		version, f.err = f.start(context.Background()) // outlives the test that happens to come first
		tb.Logf("tests run on PostgreSQL %s", version)
	})
	if f.err != nil {
		tb.Fatal(f.err)
	}
	return f.server, f.template
}

// start makes the template and the server, and returns the server's version.
func (f *fixture) start(ctx context.Context) (version string, err error) {
	if f.template, err = pgserver.NewTemplate(ctx); err != nil {
		return "", err
	}
	if f.server, err = pgserver.Start(ctx, f.template, pgserver.Options{}); err != nil {
		return "", err
	}
	return checkedVersion(ctx, f.server)
}

// checkedVersion returns the version of the server, and an error when MajorVariable asks for another.
func checkedVersion(ctx context.Context, server *pgserver.Server) (version string, err error) {
	conn, err := pgx.Connect(ctx, server.DSN("postgres"))
	if err != nil {
		return "", fmt.Errorf("pgtest: %w", err)
	}
	defer conn.Close(ctx)
	var major string
	const sql = "SELECT current_setting('server_version'), (current_setting('server_version_num')::int / 10000)::text"
	if err := conn.QueryRow(ctx, sql).Scan(&version, &major); err != nil {
		return "", fmt.Errorf("pgtest: %w", err)
	}
	if want := os.Getenv(MajorVariable); want != "" && want != major {
		return version, fmt.Errorf("pgtest: the tests run on PostgreSQL %s, and %s=%s asks for another", version, MajorVariable, want)
	}
	return version, nil
}

// close ends what open made.
func (f *fixture) close() error {
	var err error
	if f.server != nil {
		err = f.server.Close()
	}
	if f.template != nil {
		err = errors.Join(err, f.template.Remove())
	}
	return err
}
