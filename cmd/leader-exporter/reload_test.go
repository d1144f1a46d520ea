package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// testFile is a file, such as a configuration or a password, that a test may rewrite.
type testFile string

func newTestFile(t *testing.T, content string) testFile {
	t.Helper()
	f := testFile(filepath.Join(t.TempDir(), "file"))
	f.write(t, content)
	return f
}

func (f testFile) write(t *testing.T, content string) {
	t.Helper()
	if err := os.WriteFile(string(f), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// reload asks for a reload by HTTP and returns status and body.
func (e *exporter) reload(t *testing.T) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+"/-/reload", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(content)
}

// hold takes the leader's lock in the database until the test ends.
func hold(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_lock(1886156915, 1)"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// E14: of several targets each tells of itself; static labels are on all of their series.
func TestTargetsDoNotDisturbEachOther(t *testing.T) {
	db := pgtest.Database(t)
	hold(t, db.DSN)
	file := newTestFile(t, fmt.Sprintf(`
targets:
  - {name: up, dsn: '%s', labels: {deployment: eu}}
  - {name: down, dsn: 'postgres://postgres@%s/postgres?sslmode=disable', labels: {deployment: us}}
`, db.DSN, freeAddress(t)))
	e := startExporter(t, "--config.file="+string(file))
	e.awaitMetrics(t, []string{
		`leader_lock_up{deployment="eu",target="up"} 1`,
		`leader_lock_up{deployment="us",target="down"} 0`,
		`leader_lock_held{datname="test_\d+",deployment="eu",lock="background-leader",target="up"} 1`,
		`leader_exporter_config_last_reload_successful 1`,
	}, `leader_lock_held{[^}]*target="down"`)
}

// E22: a reload takes the new configuration, keeps what unchanged targets know, and keeps everything when the file is broken.
func TestReloadKeepsTheLastGoodConfigAndWhatTargetsKnow(t *testing.T) {
	first, second := pgtest.Database(t), pgtest.Database(t)
	target := func(name, dsn string) string { return fmt.Sprintf("  - {name: %s, dsn: '%s'}\n", name, dsn) }
	file := newTestFile(t, "targets:\n"+target("a", first.DSN))
	e := startExporter(t, "--config.file="+string(file), "--web.enable-lifecycle")
	for range 3 { // terms that only this process has seen
		conn := hold(t, first.DSN)
		e.awaitMetrics(t, []string{fmt.Sprintf(`leader_lock_holder_pid{.*target="a"} %d\n`, conn.PgConn().PID())})
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.awaitMetrics(t, []string{`leader_lock_held{.*target="a"} 0`})
	}

	// What stands above a target in the file is no part of it.
	file.write(t, "# a line\ntargets:\n"+target("b", second.DSN)+target("a", first.DSN))
	if status, body := e.reload(t); status != http.StatusOK || body != "configuration reloaded\n" {
		t.Errorf("reload: %d %s", status, body)
	}
	e.awaitMetrics(t, []string{`leader_lock_terms_total{.*target="a"} 3\n`, `leader_lock_up{target="b"} 1`})

	file.write(t, "targets:\n  - name: a\n    dsm: S3CRET\n")
	status, body := e.reload(t)
	if status != http.StatusInternalServerError || !strings.Contains(body, string(file)+":3: targets[0].dsm: unknown key") || strings.Contains(body, "S3CRET") {
		t.Errorf("reload of a broken file: %d %s", status, body)
	}
	e.awaitMetrics(t, []string{
		`leader_exporter_config_last_reload_successful 0`, `leader_lock_terms_total{.*target="a"} 3\n`, `leader_lock_up{target="b"} 1`,
	})

	file.write(t, "targets:\n"+target("b", second.DSN))
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	e.awaitMetrics(t, []string{`leader_exporter_config_last_reload_successful 1`, `leader_lock_up{target="b"} 1`}, `target="a"`)
	var left int
	if err := first.Connect(t).QueryRow(t.Context(),
		"SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leader-exporter' AND datname = $1", first.Name).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d backends of a target that is gone, %v", left, err)
	}
}

// Without the flag nobody reloads by HTTP.
func TestReloadByHTTPIsOffByDefault(t *testing.T) {
	t.Setenv("LEADER_EXPORTER_DSN", pgtest.Database(t).DSN)
	e := startExporter(t)
	if status, body := e.reload(t); status != http.StatusForbidden || !strings.Contains(body, "--web.enable-lifecycle") {
		t.Errorf("reload: %d %s", status, body)
	}
}

// E20: reloads beside scrapes neither race nor lose a target that stays.
func TestLoadReloadsBesideScrapes(t *testing.T) {
	db := pgtest.Database(t)
	target := func(i int) string { return fmt.Sprintf("  - {name: t%d, dsn: '%s'}\n", i, db.DSN) }
	file := newTestFile(t, "targets:\n"+target(0))
	hold(t, db.DSN)
	e := startExporter(t, "--config.file="+string(file), "--web.enable-lifecycle")
	e.awaitMetrics(t, []string{`leader_lock_held{.*target="t0"} 1`})
	const each = 500
	var working sync.WaitGroup
	working.Go(func() {
		for i := range each {
			file.write(t, "targets:\n"+target(0)+target(1+i%3))
			if status, body := e.reload(t); status != http.StatusOK {
				t.Errorf("reload: %d %s", status, body)
			}
		}
	})
	stays := regexp.MustCompile(`leader_lock_terms_total{.*target="t0"} 1\n`)
	for range 4 {
		working.Go(func() {
			for range each / 4 {
				body, err := get(t.Context(), e.url+"/metrics")
				if err != nil || !stays.MatchString(body) {
					t.Errorf("a scrape beside a reload: %v\n%s", err, body)
					return
				}
			}
		})
	}
	working.Wait()
}

// E21: a password that is changed on the server and in the file is used at the next connect, without a reload.
func TestRotatedPasswordIsReadAtTheNextConnect(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{HBA: []string{
		"local all all trust", "host all postgres all trust", "host all watcher all scram-sha-256",
	}})
	rotate := func(password string) {
		t.Helper()
		if err := server.Exec(t.Context(), "postgres", "ALTER ROLE watcher LOGIN PASSWORD '"+password+"'"); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Exec(t.Context(), "postgres", "CREATE ROLE watcher"); err != nil {
		t.Fatal(err)
	}
	rotate("first")
	secret := newTestFile(t, "first\n")
	file := newTestFile(t, fmt.Sprintf("targets:\n  - {name: a, dsn: '%s', password_file: %s}\n",
		strings.Replace(server.DSN("postgres"), "postgres@", "watcher@", 1), secret))
	e := startExporter(t, "--config.file="+string(file))
	e.awaitMetrics(t, []string{`leader_lock_up{target="a"} 1`})
	rotate("second")
	terminate := "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'watcher'"
	if err := server.Exec(t.Context(), "postgres", terminate); err != nil {
		t.Fatal(err)
	}
	e.awaitMetrics(t, []string{`leader_lock_up{target="a"} 0`, `poll_failures_total{reason="auth",target="a"} [1-9]`})
	secret.write(t, "second\n")
	e.awaitMetrics(t, []string{`leader_lock_up{target="a"} 1`})
}
