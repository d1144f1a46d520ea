package leader_test

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/plexsphere/leader-exporter/leader"
)

// A replica of a service with two kinds of background work that one replica at a time does: a pass on a fixed cadence,
// and a loop that paces itself. SIGTERM hands the work over: Run ends the term, unlocks and returns.
func Example() {
	logger := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL")) // with connect_timeout=5 in it
	if err != nil {
		logger.ErrorContext(ctx, "make the pool", slog.Any("error", err))
		return
	}
	defer pool.Close()

	elector, err := leader.New(leader.Config{Pool: pool, Registerer: prometheus.DefaultRegisterer})
	if err != nil {
		logger.ErrorContext(ctx, "make the elector", slog.Any("error", err))
		return
	}

	var background sync.WaitGroup
	background.Go(func() {
		if err := elector.Run(ctx); err != nil {
			logger.ErrorContext(ctx, "take part in the election", slog.Any("error", err))
		}
	})
	background.Go(func() { expireInvitations(ctx, elector, pool, logger) })
	background.Go(func() { archiveWhileLeading(ctx, elector, pool, logger) })
	background.Wait()
}

// expireInvitations makes one pass a minute on the leader. Each statement is right under two leaders too: it changes only
// what is still pending.
func expireInvitations(ctx context.Context, elector *leader.Elector, pool *pgxpool.Pool, logger *slog.Logger) {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		_, err := elector.Do(ctx, func(term context.Context) error {
			_, err := pool.Exec(term, `UPDATE invitations SET state = 'expired' WHERE state = 'pending' AND expires_at < now()`)
			return err
		})
		if err != nil {
			logger.WarnContext(ctx, "expire invitations", slog.Any("error", err)) // a lost term is no error and does not come here
		}
	}
}

// archiveWhileLeading gives a self-paced loop one term at a time.
func archiveWhileLeading(ctx context.Context, elector *leader.Elector, pool *pgxpool.Pool, logger *slog.Logger) {
	ticker := time.NewTicker(leader.DefaultCheckInterval)
	defer ticker.Stop()
	for {
		if term, cancel, leads := elector.Term(ctx); leads {
			archive(term, pool)
			logger.InfoContext(ctx, "archiver stopped", slog.Any("cause", context.Cause(term))) // leader.ErrLeadershipLost after a loss
			cancel()
		} else {
			cancel()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// archive moves rows until its context ends or none is left.
func archive(ctx context.Context, pool *pgxpool.Pool) {
	for ctx.Err() == nil {
		tag, err := pool.Exec(ctx, `WITH batch AS (
				DELETE FROM audit WHERE id IN (SELECT id FROM audit ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED) RETURNING *)
			INSERT INTO audit_archive SELECT * FROM batch`)
		if err != nil || tag.RowsAffected() == 0 {
			return
		}
	}
}
