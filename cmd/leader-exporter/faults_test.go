package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// scrapes reads /metrics n times with so many clients at once, and returns how long each answer took. Each must be 200 and hold what
// the pattern says.
func (e *exporter) scrapes(t *testing.T, n, clients int, pattern string) []time.Duration {
	t.Helper()
	wanted := regexp.MustCompile(pattern)
	took := make([]time.Duration, n)
	work := make(chan int)
	var scraping sync.WaitGroup
	for range clients {
		scraping.Go(func() {
			for i := range work {
				begin := time.Now()
				body, err := get(t.Context(), e.url+"/metrics")
				took[i] = time.Since(begin)
				if err != nil || !wanted.MatchString(body) {
					t.Errorf("scrape %d: %v, want %s in\n%s", i, err, pattern, body)
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	scraping.Wait()
	slices.Sort(took)
	return took
}

// backends counts the sessions of the exporter, without a connection of the test's own.
func backends(t *testing.T, admin *pgx.Conn) (n int) {
	t.Helper()
	if err := admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leader-exporter'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// E6, E8: a server that is stopped in its tracks holds up no scrape: a thousand of ten clients are all answered, say that the
// target is down and nothing of its lock, and leave it one backend; it heals by itself.
func TestLoadPausedServerHoldsUpNoScrape(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{})
	admin := hold(t, server.DSN("postgres"))
	t.Setenv("LEADER_EXPORTER_DSN", server.DSN("postgres"))
	e := startExporter(t, "--poll.timeout=300ms")
	e.awaitMetrics(t, []string{`leader_lock_held{.*} 1`})
	healthy := e.scrapes(t, 1000, 10, `leader_lock_up{target="default"} [01]\n`)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	e.awaitMetrics(t, []string{`leader_lock_up{target="default"} 0`, `poll_failures_total{reason="timeout",target="default"} [1-9]`}, `leader_lock_held`)
	took := e.scrapes(t, 1000, 10, `leader_lock_up{target="default"} 0\n`)
	for state, took := range map[string][]time.Duration{"healthy": healthy, "paused": took} {
		fmt.Printf("scrapes beside a %s server: median %v, 99th of 100 %v, worst %v\n", state,
			took[500].Round(10*time.Microsecond), took[990].Round(10*time.Microsecond), took[999].Round(10*time.Microsecond))
	}
	if took[990] > 3*healthy[990]+100*time.Millisecond {
		t.Errorf("one scrape in a hundred takes %v, and %v beside a healthy server", took[990], healthy[990])
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	e.awaitMetrics(t, []string{`leader_lock_held{.*} 1`})
	pgtest.Eventually(t, patience, "one backend", func() (bool, string) {
		n := backends(t, admin)
		return n == 1, fmt.Sprint(n)
	})
}

// E7: a target that drops everything holds up neither the others nor a scrape.
func TestBlackHoledTargetHoldsUpNothing(t *testing.T) {
	hole, err := net.Listen("tcp4", "127.0.0.1:0") // accepts by its backlog, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	db := pgtest.Database(t)
	hold(t, db.DSN)
	file := newTestFile(t, fmt.Sprintf("targets:\n  - {name: good, dsn: '%s'}\n  - {name: hole, dsn: 'postgres://postgres@%s/postgres?sslmode=disable'}\n",
		db.DSN, hole.Addr()))
	e := startExporter(t, "--config.file="+string(file), "--poll.timeout=500ms")
	e.awaitMetrics(t, []string{`leader_lock_held{.*target="good"} 1`, `poll_failures_total{reason="timeout",target="hole"} [1-9]`})
	e.scrapes(t, 50, 10, `leader_lock_up{target="hole"} 0\n`)
}

// E35: whatever a scraper says of its timeout, it is answered, since no scrape waits.
func TestScrapeTimeoutHeaderDoesNotMatter(t *testing.T) {
	t.Setenv("LEADER_EXPORTER_DSN", pgtest.Database(t).DSN)
	e := startExporter(t)
	for _, value := range []string{"2", "abc", "-1", "1e309", ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.url+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", value)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%q: %d, %v", value, resp.StatusCode, err)
		}
	}
}

// E27: servers on IPv6, in a URL and in keywords; the holder's address comes without brackets.
func TestServersOnIPv6(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{Settings: map[string]string{"listen_addresses": "127.0.0.1,::1"}})
	inURL := fmt.Sprintf("postgres://postgres@[::1]:%d/postgres?sslmode=disable", server.Port())
	inKeywords := fmt.Sprintf("host=::1 port=%d user=postgres dbname=postgres sslmode=disable", server.Port())
	hold(t, inURL)
	file := newTestFile(t, fmt.Sprintf("targets:\n  - {name: url, dsn: '%s'}\n  - {name: keywords, dsn: '%s'}\n", inURL, inKeywords))
	e := startExporter(t, "--config.file="+string(file))
	e.awaitMetrics(t, []string{
		`leader_lock_holder_info{.*client_addr="::1".*target="url".*} 1`, `leader_lock_holder_info{.*client_addr="::1".*target="keywords".*} 1`,
	})
}

// E24: changes of the leader add no series; a client's port is in none.
func TestLeaderChangesAddNoSeries(t *testing.T) {
	db := pgtest.Database(t)
	t.Setenv("LEADER_EXPORTER_DSN", db.DSN)
	e := startExporter(t)
	want := 0
	for range 30 {
		conn := hold(t, db.DSN)
		page := e.awaitMetrics(t, []string{fmt.Sprintf(`leader_lock_holder_pid{.*} %d\n`, conn.PgConn().PID())})
		if strings.Contains(page, "port=") {
			t.Errorf("a port is a label:\n%s", page)
		}
		if got := strings.Count(page, "\nleader_"); want == 0 {
			want = got
		} else if got != want {
			t.Errorf("%d series, %d before", got, want)
		}
		if err := conn.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// A server that takes no more connections is down for that reason, and heals.
func TestServerFullOfConnectionsIsDown(t *testing.T) {
	server := pgtest.Cluster(t, pgserver.Options{Settings: map[string]string{"max_connections": "5", "superuser_reserved_connections": "0"}})
	var crowd []*pgx.Conn
	for range 5 {
		conn, err := pgx.Connect(t.Context(), server.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		crowd = append(crowd, conn)
	}
	t.Setenv("LEADER_EXPORTER_DSN", server.DSN("postgres"))
	e := startExporter(t)
	e.awaitMetrics(t, []string{`leader_lock_up{target="default"} 0`, `poll_failures_total{reason="connect",target="default"} [1-9]`})
	if !strings.Contains(e.log.String(), "53300") {
		t.Errorf("the log does not say why:\n%s", e.log)
	}
	if err := crowd[0].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.awaitMetrics(t, []string{`leader_lock_up{target="default"} 1`})
}
