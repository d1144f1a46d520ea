package leader_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/plexsphere/leader-exporter/internal/logtest"
	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
	"github.com/plexsphere/leader-exporter/lockkey"
)

// interval is the CheckInterval of the replicas in bubbles, where time costs nothing.
const interval = 5 * time.Second

// replica is one elector with what a test wants to look at.
type replica struct {
	*leader.Elector
	pool     *pgxpool.Pool
	logs     *logtest.Lines
	registry *prometheus.Registry
	stop     context.CancelFunc
	returned chan error // what Run returned
}

// newReplica makes an elector on the pool without running it. Each configure function may change its configuration.
func newReplica(tb testing.TB, pool *pgxpool.Pool, checkInterval time.Duration, configure ...func(*leader.Config)) *replica {
	tb.Helper()
	r := &replica{pool: pool, logs: &logtest.Lines{}, registry: prometheus.NewRegistry(), returned: make(chan error, 1)}
	config := leader.Config{
		Pool:          pool,
		CheckInterval: checkInterval,
		Logger:        slog.New(r.logs),
		Registerer:    r.registry,
	}
	for _, f := range configure {
		f(&config)
	}
	elector, err := leader.New(config)
	if err != nil {
		tb.Fatal(err)
	}
	r.Elector = elector
	return r
}

// run starts Run, and stops it at the end of the test.
func (r *replica) run(tb testing.TB) *replica {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.returned <- r.Run(ctx)
	}()
	tb.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

// gauge reads plexsphere_background_leader from the replica's registry.
func (r *replica) gauge(tb testing.TB) float64 {
	tb.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	if len(families) != 1 || families[0].GetName() != "plexsphere_background_leader" || len(families[0].GetMetric()) != 1 {
		tb.Fatalf("gathered %v, want the one gauge", families)
	}
	return families[0].GetMetric()[0].GetGauge().GetValue()
}

// requireStandby fails unless every view of the replica says that it does not lead.
func (r *replica) requireStandby(tb testing.TB) {
	tb.Helper()
	if r.IsLeader() || r.gauge(tb) != 0 {
		tb.Errorf("IsLeader %v, gauge %v; want a standby", r.IsLeader(), r.gauge(tb))
	}
}

// requireLeader fails unless every view of the replica says that it leads.
func (r *replica) requireLeader(tb testing.TB) {
	tb.Helper()
	if !r.IsLeader() || r.gauge(tb) != 1 {
		tb.Errorf("IsLeader %v, gauge %v; want the leader. Log:\n%s", r.IsLeader(), r.gauge(tb), strings.Join(r.logs.With(""), "\n"))
	}
}

// inBubble runs the story on the fake clock with a scripted server.
func inBubble(t *testing.T, story func(t *testing.T, server *leadertest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { story(t, leadertest.NewServer(t)) })
}

// holder names the client that holds the lock by the server's books, or nobody.
func holder(server *leadertest.Server) string {
	client, _, held := server.Holder(lockkey.BackgroundLeader())
	if !held {
		return "nobody"
	}
	return client
}

// requireHolder fails unless the server says that the client holds the lock.
func requireHolder(t *testing.T, server *leadertest.Server, want string) {
	t.Helper()
	if got := holder(server); got != want {
		t.Errorf("the server says that %s holds the lock, want %s", got, want)
	}
}

// count returns how many of the server's statements contain the text.
func count(server *leadertest.Server, text string) int {
	n := 0
	for _, statement := range server.Statements() {
		if strings.Contains(statement.SQL, text) {
			n++
		}
	}
	return n
}

// requireLint fails when promlint finds something to say about the replica's metrics.
func requireLint(t *testing.T, r *replica) {
	t.Helper()
	problems, err := testutil.GatherAndLint(r.registry)
	if err != nil || len(problems) != 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
}
