package replica_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/plexsphere/leader-exporter/cmd/plexsphere-demo/replica"
	"github.com/plexsphere/leader-exporter/cmd/plexsphere-demo/work"
	"github.com/plexsphere/leader-exporter/internal/freeport"
	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/internal/syncbuf"
)

const (
	checkInterval = 2 * time.Second // a machine that stands still for a moment changes no leader
	loopInterval  = 50 * time.Millisecond
	patience      = 30 * time.Second
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// running is a replica in this process.
type running struct {
	address  string
	log      *syncbuf.Buffer
	stop     context.CancelFunc
	returned chan error
}

// start runs a replica on the database until the test ends.
func start(t *testing.T, dsn string, configure ...func(*replica.Options)) *running {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{address: address, log: &syncbuf.Buffer{}, returned: make(chan error, 1)}
	opts := replica.Options{
		Name: "replica-" + t.Name(), Address: r.address, DSN: dsn, CheckInterval: checkInterval, LoopInterval: loopInterval,
		Restarts: 3, MinBackoff: 10 * time.Millisecond, Cooldown: time.Hour, BootTimeout: patience,
	}
	for _, f := range configure {
		f(&opts)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.returned <- replica.Run(ctx, opts, slog.New(slog.NewTextHandler(r.log, nil)))
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

// get reads a page, with its status; 0 means no answer.
func (r *running) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(content)
}

// readiness reads /readyz, with its status; 0 means no answer.
func (r *running) readiness(t *testing.T) (status int, answer replica.Readiness) {
	t.Helper()
	status, body := r.get(t, "/readyz")
	if status == 0 {
		return 0, answer
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Errorf("/readyz: %v\n%s", err, body)
	}
	if answer.Ready != (status == http.StatusOK) {
		t.Errorf("/readyz: status %d of %s", status, body)
	}
	return status, answer
}

// metrics reads /metrics; an error is an empty page.
func (r *running) metrics(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	_, body := r.get(t, "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, _ := parser.TextToMetricFamilies(strings.NewReader(body))
	return families
}

// value returns the value of the series with these label values, in the order of the labels' names, or -1.
func (r *running) value(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	for _, m := range r.metrics(t)[name].GetMetric() {
		var got []string
		for _, pair := range m.GetLabel() {
			got = append(got, pair.GetValue())
		}
		if slices.Equal(got, labels) {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
		}
	}
	return -1
}

// await waits for a fact about the replica.
func (r *running) await(t *testing.T, fact string, holds func() bool) {
	t.Helper()
	pgtest.Eventually(t, patience, fact, func() (bool, string) { return holds(), r.log.String() })
}

// awaitLeader waits until the replica leads and has ticked.
func (r *running) awaitLeader(t *testing.T) {
	t.Helper()
	r.await(t, "it leads and its loops tick", func() bool {
		return r.value(t, "plexsphere_background_leader") == 1 &&
			r.value(t, "plexsphere_background_loop_ticks_total", "auth-state-sweep", "ok") > 0
	})
}

// the workers of the spec: the election first.
func workers() []string {
	return []string{
		"background-leader",
		"invitations-expire", "approvals-expire", "actions-timeout", "access-session-sweep", "auth-state-sweep", "rate-budget-sweep",
		"sse-nonce-sweep", "credentials-sweeper", "cloud-credentials-sweeper", "management-fleet-reconcile",
		"provisioning-broker-reconcile", "artifacts-refresh", "blueprint-catalogs-tracking", "peers-endpoint-sweeper", "reachability-evaluator",
		"audit-archiver", "authz-outbox-consumer",
		"capacity-collector", "observability-routing-consume", "sse-relay", "sse-signing-key-rotation-watcher", "peers-relay-assigner",
	}
}

// the probes of the spec.
func probes() []string {
	return []string{
		"access-session-sweeper", "actions-timeout", "approvals-expire", "artifacts-refresh", "invitations-expire",
		"management-fleet-reconcile", "provisioning-broker-reconcile", "workers",
	}
}

// The replica has the spec's workers and probes, by name, and all of them are well.
func TestReplicaIsLaidOutAsTheSpecSays(t *testing.T) {
	t.Parallel()
	r := start(t, pgtest.Database(t).DSN)
	r.awaitLeader(t)
	for _, name := range workers() {
		r.await(t, "worker "+name+" runs", func() bool { return r.value(t, "plexsphere_worker_up", name) == 1 })
	}
	if n := len(r.metrics(t)["plexsphere_worker_up"].GetMetric()); n != len(workers()) {
		t.Errorf("%d workers, want %d", n, len(workers()))
	}
	status, answer := r.readiness(t)
	var names []string
	for name := range answer.Probes {
		names = append(names, name)
	}
	slices.Sort(names)
	if status != http.StatusOK || !slices.Equal(names, probes()) {
		t.Errorf("/readyz: %d, probes %q; want %q", status, names, probes())
	}
	for _, name := range workers()[1:18] {
		if r.value(t, "plexsphere_background_loop_running", name) < 0 {
			t.Errorf("loop %s has no metrics", name)
		}
	}
}

// Without a DSN there is no elector and no loop.
func TestNothingRunsWithoutADSN(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	r.await(t, "it serves", func() bool {
		status, _ := r.readiness(t)
		return status == http.StatusOK
	})
	if _, answer := r.readiness(t); len(answer.Probes) != 1 || !answer.Probes["workers"].OK {
		t.Errorf("probes %v, want workers alone", answer.Probes)
	}
	for name := range r.metrics(t) {
		if strings.HasPrefix(name, "plexsphere_") {
			t.Errorf("metric %s of a replica without a database", name)
		}
	}
	r.stop()
	if err := <-r.returned; err != nil {
		t.Errorf("Run = %v", err)
	}
}

// What fell due while no replica ran is handled by the boot passes, on a standby too, before it reports ready.
func TestBootPassesComeBeforeReady(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	pool := db.Pool(t)
	if err := work.Create(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if err := work.Seed(t.Context(), pool, 0); err != nil {
		t.Fatal(err)
	}
	admin := db.Connect(t)
	if _, err := admin.Exec(t.Context(), "SELECT pg_advisory_lock(1886156915, 1)"); err != nil { // another leads
		t.Fatal(err)
	}
	r := start(t, db.DSN)
	r.await(t, "it is ready", func() bool { status, _ := r.readiness(t); return status == http.StatusOK })
	rows, err := admin.Query(t.Context(), "SELECT DISTINCT loop FROM handled WHERE origin IN ('boot', 'tick', 'term', 'gated') ORDER BY loop")
	if err != nil {
		t.Fatal(err)
	}
	handled, err := pgx.CollectRows(rows, pgx.RowTo[string])
	want := []string{
		"access-session-sweep", "actions-timeout", "approvals-expire", "artifacts-refresh", "invitations-expire",
		"management-fleet-reconcile", "provisioning-broker-reconcile",
	}
	if err != nil || !slices.Equal(handled, want) {
		t.Errorf("handled before ready: %q, %v; want %q", handled, err, want)
	}
}

// A replica that is started before its server waits for it.
func TestReplicaWaitsForItsServer(t *testing.T) {
	t.Parallel()
	server := pgtest.Cluster(t, pgserver.Options{})
	if err := server.Stop(pgserver.Fast); err != nil {
		t.Fatal(err)
	}
	r := start(t, server.DSN("postgres"))
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitLeader(t)
}

// A replica that finds no free connection waits for one.
func TestReplicaWaitsForAConnection(t *testing.T) {
	t.Parallel()
	const most = 30
	server := pgtest.Cluster(t, pgserver.Options{Settings: map[string]string{"max_connections": fmt.Sprint(most), "superuser_reserved_connections": "0"}})
	var crowd []*pgx.Conn
	for range most {
		conn, err := pgx.Connect(t.Context(), server.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		crowd = append(crowd, conn)
	}
	r := start(t, server.DSN("postgres"))
	pgtest.Eventually(t, patience, "the server has refused the replica", func() (bool, string) {
		log, err := os.ReadFile(filepath.Join(server.SocketFolder(), "log"))
		return strings.Contains(string(log), "too many clients"), fmt.Sprint(err)
	})
	select {
	case err := <-r.returned:
		t.Fatalf("Run = %v, want that it waits", err)
	default:
	}
	for _, conn := range crowd {
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.awaitLeader(t)
}

// What the server refuses ends the replica at once, with the reason.
func TestReplicaEndsWhereItIsRefused(t *testing.T) {
	t.Parallel()
	dsn := strings.Replace(pgtest.Database(t).DSN, "/test_", "/no_such_", 1)
	r := start(t, dsn, func(o *replica.Options) { o.BootTimeout = time.Hour })
	select {
	case err := <-r.returned:
		if err == nil || !strings.Contains(err.Error(), "3D000") {
			t.Errorf("Run = %v, want that there is no such database", err)
		}
	case <-time.After(patience):
		t.Error("it goes on")
	}
}

// A boot pass that something keeps waiting is given up: meanwhile the replica answers and says that it boots, and then it takes
// part in the election, with what happened in the loop's probe.
func TestBootPassThatWaitsIsBounded(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	if err := work.Create(t.Context(), db.Pool(t)); err != nil {
		t.Fatal(err)
	}
	tx, err := db.Connect(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE invitations"); err != nil {
		t.Fatal(err)
	}
	r := start(t, db.DSN, func(o *replica.Options) { o.BootTimeout, o.LoopInterval = 3*time.Second, time.Hour })
	r.await(t, "it says that it boots", func() bool {
		status, answer := r.readiness(t)
		return status == http.StatusServiceUnavailable && answer.Probes[replica.Booting].Error != ""
	})
	if n := r.value(t, "plexsphere_background_loop_running", "invitations-expire"); n != 1 {
		t.Errorf("running %v during the boot pass", n)
	}
	r.await(t, "it leads", func() bool { return r.value(t, "plexsphere_background_leader") == 1 })
	_, answer := r.readiness(t)
	if _, boots := answer.Probes[replica.Booting]; boots || !strings.Contains(answer.Probes["invitations-expire"].Error, "deadline exceeded") {
		t.Errorf("probes %v, want the boot pass's error", answer.Probes)
	}
}

// The sweep of nonces has a cadence of its own.
func TestNonceSweepHasItsOwnCadence(t *testing.T) {
	t.Parallel()
	r := start(t, pgtest.Database(t).DSN, func(o *replica.Options) { o.LoopInterval, o.NonceTTL = time.Hour, loopInterval })
	r.await(t, "it sweeps", func() bool { return r.value(t, "plexsphere_background_loop_ticks_total", "sse-nonce-sweep", "ok") >= 2 })
	if n := r.value(t, "plexsphere_background_loop_ticks_total", "auth-state-sweep", "ok"); n != 0 {
		t.Errorf("another loop has ticked %v times within its hour", n)
	}
}

// A replica that is told to stop says so, gives the lock back before it ends, and leaves no work behind.
func TestStopStepsDownFirst(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	first := start(t, db.DSN)
	first.awaitLeader(t)
	second := start(t, db.DSN, func(o *replica.Options) { o.Name = "second" })
	second.await(t, "it is ready", func() bool { status, _ := second.readiness(t); return status == http.StatusOK })
	first.stop()
	if err := <-first.returned; err != nil {
		t.Errorf("Run = %v\n%s", err, first.log)
	}
	log := first.log.String()
	down, released := strings.Index(log, "stepping down"), strings.Index(log, "background leader lock released")
	if down < 0 || released < down || strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
		t.Errorf("log of a clean stop:\n%s", log)
	}
	second.awaitLeader(t)
}

// A mistake in the options is named, and no secret with it.
func TestMistakesOfTheReplicaAreNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		configure func(*replica.Options)
		want      string
	}{
		"DSN":     {func(o *replica.Options) { o.DSN = "host=h password = secr3t port=abc" }, "PLEXSPHERE_DSN: malformed connection string"},
		"break":   {func(o *replica.Options) { o.Breaks = map[string]replica.Break{"no-such-loop": replica.BreakHang} }, "--break=no-such-loop: there is no loop of that name"},
		"address": {func(o *replica.Options) { o.DSN, o.Address = "", "256.0.0.1:0" }, "--web.listen-address: "},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, "postgres://127.0.0.1:1/nowhere", tc.configure)
			err := <-r.returned
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(fmt.Sprint(err, r.log), "secr3t") {
				t.Errorf("Run = %v, want %q in it", err, tc.want)
			}
		})
	}
}
