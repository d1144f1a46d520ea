package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/plexsphere/leader-exporter/leader"
)

// replicaOptions is what the command line says to replica.
type replicaOptions struct {
	name, address string
	checkInterval time.Duration
}

// runReplica takes part in the election and serves /metrics until ctx ends.
func runReplica(ctx context.Context, opts replicaOptions, logger *slog.Logger) error {
	database, err := dsn()
	if err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		return errors.New("PLEXSPHERE_DSN: malformed connection string") // the driver's text may repeat the password
	}
	config.ConnConfig.RuntimeParams["application_name"] = opts.name
	config.ConnConfig.ConnectTimeout = opts.checkInterval
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("replica: make a pool: %w", err)
	}
	defer pool.Close()
	registry := prometheus.NewRegistry()
	elector, err := leader.New(leader.Config{Pool: pool, CheckInterval: opts.checkInterval, Logger: logger, Registerer: registry})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", opts.address)
	if err != nil {
		return fmt.Errorf("replica: --web.listen-address: %w", err)
	}
	logger.InfoContext(ctx, "replica started", slog.String("name", opts.name), slog.String("address", listener.Addr().String()))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		defer cancel() // a replica that cannot be scraped does not go on
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.ErrorContext(ctx, "metrics are no longer served", slog.Any("error", err))
		}
	})
	err = elector.Run(ctx)
	cancel()
	err = errors.Join(err, server.Close())
	running.Wait()
	return err
}
