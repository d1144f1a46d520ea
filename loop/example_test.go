package loop_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/loop"
	"github.com/plexsphere/leader-exporter/worker"
)

// A loop of your own under a leader: a Ticker for the pass, a Supervisor that runs it beside the elector, and their probes.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Getenv("DATABASE_URL"), prometheus.DefaultRegisterer); err != nil {
		slog.New(slog.NewJSONHandler(os.Stderr, nil)).ErrorContext(ctx, "serve", slog.Any("error", err))
	}
}

func serve(ctx context.Context, database string, registerer prometheus.Registerer) error {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	elector, err := leader.New(leader.Config{Pool: pool, Registerer: registerer})
	if err != nil {
		return err
	}

	expire, err := loop.NewTicker(loop.Config{
		Name: "invitations-expire", Every: time.Minute, Leader: elector, Registerer: registerer,
	}, func(term context.Context) error {
		_, err := pool.Exec(term, `UPDATE invitations SET state = 'expired' WHERE state = 'pending' AND expires_at < now()`)
		return err
	})
	if err != nil {
		return err
	}
	supervisor, err := worker.New(worker.Config{Registerer: registerer})
	if err != nil {
		return err
	}
	if err := errors.Join(supervisor.Add("background-leader", elector.Run), supervisor.Add("invitations-expire", expire.Run)); err != nil {
		return err
	}

	http.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := errors.Join(expire.Ready(r.Context()), supervisor.Ready(r.Context())); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	if err := supervisor.Run(ctx); err != nil {
		return err // a worker is stuck, maybe with a connection, for which Close would wait
	}
	pool.Close()
	return nil
}

// A worker that is beyond help hands the background work to another replica, for as long as this process lives.
func Example_stepDownWhenExhausted() {
	var elector *leader.Elector // made with leader.New
	supervisor, err := worker.New(worker.Config{
		OnExhausted: func(ctx context.Context, _ string, _ error) {
			const forever = 100 * 365 * 24 * time.Hour
			_ = elector.StepDown(ctx, forever) // the elector logs an unlock that fails
		},
	})
	_, _ = supervisor, err
}
