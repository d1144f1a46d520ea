package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/internal/syncbuf"
)

// exporter is a serve in this process.
type exporter struct {
	url string
	log *syncbuf.Buffer
}

var listening = regexp.MustCompile(`address=(127\.0\.0\.1:\d+)`)

// startExporter runs serve on a port of its own until the test ends. The environment, or a flag, says which database.
func startExporter(t *testing.T, flags ...string) *exporter {
	t.Helper()
	return startExporterUntil(t, context.Background(), flags...)
}

// startExporterUntil is startExporter until ctx ends, if that is sooner.
func startExporterUntil(t *testing.T, ctx context.Context, flags ...string) *exporter {
	t.Helper()
	e := &exporter{log: &syncbuf.Buffer{}}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if code := run(ctx, append([]string{
			"--web.listen-address=127.0.0.1:0", "--poll.interval=20ms", "--poll.max-duty-cycle=1", "--log.level=debug",
		}, flags...), io.Discard, e.log); code != exitOK {
			t.Errorf("exit code %d:\n%s", code, e.log)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	pgtest.Eventually(t, patience, "the exporter listens", func() (bool, string) {
		found := listening.FindStringSubmatch(e.log.String())
		if found != nil {
			e.url = "http://" + found[1]
		}
		return found != nil, e.log.String()
	})
	return e
}

// awaitMetrics waits for a scrape that holds every pattern of want and none of unwanted, and returns it.
func (e *exporter) awaitMetrics(t *testing.T, want []string, unwanted ...string) (page string) {
	t.Helper()
	pgtest.Eventually(t, patience, strings.Join(want, " and ")+" without "+strings.Join(unwanted, ", "), func() (bool, string) {
		body, err := get(t.Context(), e.url+"/metrics")
		if err != nil {
			return false, err.Error()
		}
		for _, pattern := range want {
			if !regexp.MustCompile(pattern).MatchString(body) {
				return false, body
			}
		}
		for _, pattern := range unwanted {
			if regexp.MustCompile(pattern).MatchString(body) {
				return false, body
			}
		}
		page = body
		return true, ""
	})
	return page
}

// E12, E19: the exporter starts before its database, tells what is there, loses it, and heals, without a restart.
func TestExporterOutlivesItsDatabase(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{})
	if err := server.Stop(pgserver.Fast); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LEADER_EXPORTER_DSN", server.DSN("postgres"))
	e := startExporter(t)
	e.awaitMetrics(t, []string{`leader_lock_up{target="default"} 0`, `poll_failures_total{reason="connect",target="default"} [1-9]`}, `leader_lock_held`)
	for range 2 {
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.awaitMetrics(t, []string{`leader_lock_up{target="default"} 1`, `leader_lock_held{.*} 0`})
		holder, err := pgx.Connect(t.Context(), server.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_lock(1886156915, 1)"); err != nil {
			t.Fatal(err)
		}
		e.awaitMetrics(t, []string{`leader_lock_held{.*} 1`})
		if err := server.Stop(pgserver.Immediate); err != nil {
			t.Fatal(err)
		}
		_ = holder.Close(context.Background())
		e.awaitMetrics(t, []string{`leader_lock_up{target="default"} 0`, `leader_lock_terms_total{.*} [12]`}, `leader_lock_held`, `leader_lock_holder`)
	}
}

// E4: a password of every awkward character, from a file, against SCRAM.
func TestAwkwardPasswordsWork(t *testing.T) {
	const password = `p@#%/:?&={} ,'"\` + "\u00fc\u4e2d"
	server := pgtest.Cluster(t, pgserver.Options{HBA: []string{
		"local all all trust", "host all postgres all trust", "host all watcher all scram-sha-256",
	}})
	if err := server.Exec(t.Context(), "postgres", "CREATE ROLE watcher LOGIN PASSWORD '"+strings.ReplaceAll(password, "'", "''")+"'"); err != nil {
		t.Fatal(err)
	}
	plain := strings.Replace(server.DSN("postgres"), "postgres@", "watcher@", 1)
	inURL := strings.Replace(server.DSN("postgres"), "postgres@", url.UserPassword("watcher", password).String()+"@", 1)
	for name, env := range map[string]map[string]string{
		"password file": {"LEADER_EXPORTER_DSN": plain, "LEADER_EXPORTER_PASSWORD_FILE": string(newTestFile(t, password+"\n"))},
		"DSN file":      {"LEADER_EXPORTER_DSN_FILE": string(newTestFile(t, inURL+"\n"))},
		"PGPASSWORD":    {"LEADER_EXPORTER_DSN": plain, "PGPASSWORD": password},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range env {
				t.Setenv(name, value)
			}
			startExporter(t).awaitMetrics(t, []string{`leader_lock_up{target="default"} 1`})
		})
	}
	t.Run("wrong", func(t *testing.T) {
		t.Setenv("LEADER_EXPORTER_DSN", strings.Replace(plain, "watcher@", "watcher:S3CRET_x@", 1))
		e := startExporter(t)
		e.awaitMetrics(t, []string{`leader_lock_up{target="default"} 0`, `poll_failures_total{reason="auth",target="default"} [1-9]`})
		for _, path := range []string{"/metrics", "/", "/-/ready", "/api/v1/locks", "/api/v1/terms"} {
			body, err := get(t.Context(), e.url+path)
			if err != nil || strings.Contains(body, "S3CRET") {
				t.Errorf("%s: %v, or the password is in it", path, err)
			}
		}
		if strings.Contains(e.log.String(), "S3CRET") || !strings.Contains(e.log.String(), "28P01") {
			t.Errorf("log holds the password, or not the reason:\n%s", e.log)
		}
	})
}

// OpenMetrics is offered, and other methods and paths are refused.
func TestServeSpeaksOpenMetricsAndRefusesTheRest(t *testing.T) {
	t.Setenv("LEADER_EXPORTER_DSN", pgtest.Database(t).DSN)
	e := startExporter(t)
	for path, want := range map[string]int{"/nothing": 404, "/debug/pprof/": 404} {
		if got := status(t, "GET", e.url+path, ""); got != want {
			t.Errorf("GET %s = %d, want %d", path, got, want)
		}
	}
	if got := status(t, "POST", e.url+"/metrics", ""); got != 405 {
		t.Errorf("POST /metrics = %d, want 405", got)
	}
	e.awaitMetrics(t, []string{`leader_lock_up{target="default"} 1`})
	if got := status(t, "GET", e.url+"/metrics", "application/openmetrics-text; version=1.0.0"); got != 200 {
		t.Errorf("OpenMetrics: %d, want 200", got)
	}
}

// A small page of metrics is sent as it is, and the page of a large fleet compressed, to who takes it so.
func TestOnlyLargePagesOfMetricsAreCompressed(t *testing.T) {
	targets := func(n int) string {
		content := "targets:\n"
		for i := range n {
			content += fmt.Sprintf("  - {name: t%d, dsn: 'postgres://postgres@127.0.0.1:1/postgres?sslmode=disable'}\n", i)
		}
		return content
	}
	locks := func(n int) string {
		content := "targets:\n  - name: one\n    dsn: " + pgtest.Database(t).DSN + "\n    locks:\n"
		for i := range n {
			content += fmt.Sprintf("      - {name: l%d, key: 7/%d}\n", i, i)
		}
		return content
	}
	file := newTestFile(t, targets(mostPlain))
	e := startExporter(t, "--config.file="+string(file), "--web.enable-lifecycle")
	encoding := func() string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.url+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "gzip")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		size, err := io.Copy(io.Discard, resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d bytes, encoded as %q", size, resp.Header.Get("Content-Encoding"))
		return resp.Header.Get("Content-Encoding")
	}
	if got := encoding(); got != "" {
		t.Errorf("%d targets are encoded as %q", mostPlain, got)
	}
	for _, test := range []struct{ what, file, page, want string }{
		{"one target too many", targets(mostPlain + 1), `leader_lock_up{target="t20"} 0`, "gzip"},
		{"as many locks of one target as may be", locks(mostPlain), `leader_lock_up{target="one"} 1`, ""},
		{"one lock too many", locks(mostPlain + 1), `leader_lock_up{target="one"} 1[^$]*lock="l20"`, "gzip"},
	} {
		file.write(t, test.file)
		if status, body := e.reload(t); status != http.StatusOK {
			t.Fatal(status, body)
		}
		e.awaitMetrics(t, []string{test.page})
		if got := encoding(); got != test.want {
			t.Errorf("%s: encoded as %q, want %q", test.what, got, test.want)
		}
	}
}
