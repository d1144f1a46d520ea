package pgserver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestStoppedServerStartsAgainWithItsData(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{})
	if err := server.Exec(t.Context(), "postgres", "CREATE TABLE kept ()"); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []pgserver.Mode{pgserver.Fast, pgserver.Immediate} {
		if err := server.Stop(mode); err != nil {
			t.Fatal(err)
		}
		if err := server.Exec(t.Context(), "postgres", "SELECT 1"); err == nil {
			t.Fatal("a stopped server answers")
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := server.Exec(t.Context(), "postgres", "SELECT FROM kept"); err != nil {
			t.Error(err)
		}
	}
}

func TestClosedServerLeavesNothingBehind(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{})
	for range 2 {
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(server.SocketFolder()); !os.IsNotExist(err) {
		t.Errorf("folder after Close: %v", err)
	}
}

func TestPausedServerAnswersNothingUntilResumed(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{})
	conn, err := pgx.Connect(t.Context(), server.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a paused server answered: %v", err)
	case <-time.After(200 * time.Millisecond): // the absence of an answer is no fact to wait for
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestSettingsHBAAndSocketTakeEffect(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{Settings: map[string]string{"max_connections": "7"}})
	conn, err := pgx.Connect(t.Context(), "user=postgres dbname=postgres host="+server.SocketFolder()+" port="+strconv.Itoa(server.Port()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var limit string
	if err := conn.QueryRow(t.Context(), "SHOW max_connections").Scan(&limit); err != nil || limit != "7" {
		t.Errorf("max_connections = %s, %v; want 7", limit, err)
	}
	if err := server.SetHBA(t.Context(), "local all all trust", "host all all all reject"); err != nil {
		t.Fatal(err)
	}
	if err := server.Exec(t.Context(), "postgres", "SELECT 1"); err == nil || !strings.Contains(err.Error(), "28000") {
		t.Errorf("Exec over TCP = %v, want a rejection", err)
	}
}

func TestEachSetHBAHoldsForTheNextConnection(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{})
	for i := range 6 {
		method, rejects := "trust", i%2 == 1
		if rejects {
			method = "reject"
		}
		if err := server.SetHBA(t.Context(), "local all all trust", "host all all all "+method); err != nil {
			t.Fatal(err)
		}
		if err := server.Exec(t.Context(), "postgres", "SELECT 1"); (err != nil) != rejects {
			t.Errorf("Exec after change %d to %s: %v", i, method, err)
		}
	}
}

// The log line of one reload is no sign of the next.
func TestSetHBAThatIsNotReadIsAnError(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{})
	if err := server.SetHBA(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := server.SetHBA(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("SetHBA on a paused server = %v, want the deadline", err)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(pgserver.Immediate); err != nil {
		t.Fatal(err)
	}
	if err := server.SetHBA(t.Context()); err == nil {
		t.Error("SetHBA on a stopped server = nil")
	}
}

func TestDatabasesOfOneClusterAreApart(t *testing.T) {
	a, b := pgtest.Database(t), pgtest.Database(t)
	if a.Name == b.Name || a.Server != b.Server {
		t.Fatalf("databases %s and %s; want two on one server", a.Name, b.Name)
	}
	for _, db := range []*pgtest.DB{a, b} {
		var locked bool
		if err := db.Connect(t).QueryRow(t.Context(), "SELECT pg_try_advisory_lock(1, 1)").Scan(&locked); err != nil || !locked {
			t.Errorf("lock in %s: %v, %v", db.Name, locked, err)
		}
	}
}

func TestMissingServerIsNamedWithWhatToDo(t *testing.T) {
	t.Setenv(pgserver.BinVariable, t.TempDir())
	if _, err := pgserver.NewTemplate(t.Context()); err == nil || !strings.Contains(err.Error(), pgserver.BinVariable) {
		t.Errorf("NewTemplate with an empty folder: %v; want the variable named", err)
	}
	t.Setenv(pgserver.BinVariable, "")
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(found) == 0 {
		t.Fatal("this test looks for Debian's PostgreSQL where the suite runs")
	}
	t.Setenv("PATH", "")
	template, err := pgserver.NewTemplate(t.Context())
	if err != nil {
		t.Fatalf("NewTemplate without PATH: %v; want the packaged server", err)
	}
	if err := template.Remove(); err != nil {
		t.Error(err)
	}
}

// A port that somebody else has on one address alone is no place to come up on.
func TestServerNeverComesUpUnderAnothersPort(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{})
	if err := server.Stop(pgserver.Fast); err != nil {
		t.Fatal(err)
	}
	squatter, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", server.Port()))
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	if err := server.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "Address already in use") {
		t.Errorf("Start on a taken port = %v, want an error", err)
	}
}
