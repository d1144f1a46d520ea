package leader_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/internal/child"
	"github.com/plexsphere/leader-exporter/internal/faultproxy"
	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// recordedReplica makes the test binary a replica that writes its history to standard output, one event a line. The
// variable holds its order.
const recordedReplica = "LEADER_TEST_RECORDED_REPLICA"

// order is what a recorded replica is told.
type order struct {
	Name          string
	DSN           string
	CheckInterval time.Duration
	WakeOnRelease bool
	Cooldown      time.Duration // of a step-down, which SIGUSR1 asks for; SIGTERM asks for a clean stop
	WorkEvery     time.Duration
}

// runRecorded is the process.
func runRecorded(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	history := &leadertest.History{Sink: os.Stdout}
	pool, err := recordedPool(o)
	if err != nil {
		return err
	}
	defer pool.Close()
	elector, err := leader.New(leader.Config{
		Pool: pool, CheckInterval: o.CheckInterval, WakeOnRelease: o.WakeOnRelease,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)).With(slog.String("replica", o.Name)), Registerer: history.Registerer(o.Name),
	})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	stepDowns := make(chan os.Signal, 1)
	signal.Notify(stepDowns, syscall.SIGUSR1)
	go func() {
		for range stepDowns {
			_ = elector.StepDown(ctx, o.Cooldown)
		}
	}()
	go work(ctx, history, elector, pool, o)
	history.Started(o.Name)
	return elector.Run(ctx)
}

func recordedPool(o order) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(o.DSN)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 4
	config.ConnConfig.ConnectTimeout = o.CheckInterval
	config.ConnConfig.RuntimeParams["application_name"] = o.Name
	return pgxpool.NewWithConfig(context.Background(), config)
}

// work increments the counter of table counters on the leader, by a statement that compares value and fence.
func work(ctx context.Context, history *leadertest.History, elector *leader.Elector, pool *pgxpool.Pool, o order) {
	ticker := time.NewTicker(o.WorkEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		_, _ = history.Do(ctx, elector, o.Name, func(ctx context.Context) error {
			fence, ok := leader.FenceFrom(ctx)
			if !ok {
				return errors.New("no fence")
			}
			var value int64
			if err := pool.QueryRow(ctx, "SELECT value FROM counters").Scan(&value); err != nil {
				return err
			}
			history.IncrementTried(o.Name, value+1)
			tag, err := pool.Exec(ctx, "UPDATE counters SET value = $1, fence = $2 WHERE value = $1 - 1 AND fence <= $2", value+1, int64(fence))
			switch {
			case err != nil:
			case tag.RowsAffected() == 1:
				history.Incremented(o.Name, value+1)
			default:
				history.IncrementRefused(o.Name, value+1)
			}
			return err
		})
	}
}

// recorded is a replica as a process of its own, behind a proxy of its own, whose history is merged into the test's.
type recorded struct {
	t       *testing.T
	order   order
	history *leadertest.History
	proxy   *faultproxy.Proxy
	process *child.Child
	merged  chan error // what Merge of the present process returned
}

// command returns what runs a replica on that order as a process, by way of the program before it, if there is one.
func (o order) command(t *testing.T, before ...string) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	args := slices.Concat(before, []string{os.Args[0]})
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), recordedReplica+"="+string(text))
	return cmd
}

// newRecorded makes a replica of that server; start starts it.
func newRecorded(t *testing.T, history *leadertest.History, server *pgserver.Server, o order) *recorded {
	t.Helper()
	proxy, _ := behind(t, server)
	o.DSN = fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", net.JoinHostPort(proxy.Host(), strconv.Itoa(int(proxy.Port()))))
	r := &recorded{t: t, order: o, history: history, proxy: proxy}
	t.Cleanup(func() {
		if r.process != nil {
			r.kill()
		}
	})
	return r
}

// start starts the process and returns when it takes part.
func (r *recorded) start() {
	r.t.Helper()
	before := r.starts()
	events, sink := io.Pipe()
	cmd := r.order.command(r.t)
	cmd.Stdout, cmd.Stderr = sink, r.t.Output()
	var err error
	if r.process, err = child.Start(cmd, syscall.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
	merged := make(chan error, 1)
	go func() { merged <- r.history.Merge(events) }()
	go func(process *child.Child) {
		<-process.Done()
		_ = sink.Close()
	}(r.process)
	r.merged = merged
	pgtest.Eventually(r.t, patience, "the replica says that it takes part", func() (bool, string) {
		return r.starts() > before, r.order.Name
	})
}

// starts returns how often the replica has said that it takes part.
func (r *recorded) starts() int {
	n := 0
	for _, e := range r.history.Events() {
		if e.Kind == leadertest.ProcessStarted && e.Replica == r.order.Name {
			n++
		}
	}
	return n
}

// signal signals the process.
func (r *recorded) signal(sig syscall.Signal) {
	r.t.Helper()
	if err := r.process.Signal(sig); err != nil {
		r.t.Error(err)
	}
}

// kill kills the process and returns when all that it wrote is in the history.
func (r *recorded) kill() {
	_ = r.process.Signal(syscall.SIGKILL)
	r.gone()
}

// gone waits for the end of the process.
func (r *recorded) gone() {
	r.t.Helper()
	if r.process == nil {
		return
	}
	<-r.process.Done()
	r.process = nil
	if err := <-r.merged; err != nil {
		r.t.Error(err)
	}
	r.history.Ended(r.order.Name)
}
