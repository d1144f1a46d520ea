package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"

	"github.com/plexsphere/leader-exporter/api"
	"github.com/plexsphere/leader-exporter/history"
)

// stopTimeout is how long requests that are under way may take after a signal.
const stopTimeout = 5 * time.Second

// serve runs the exporter until ctx ends.
func serve(ctx context.Context, opts options, stderr io.Writer) int {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // from now on: it would end the process
	defer signal.Stop(hangups)
	if err := opts.validateWeb(); err != nil {
		printProblems(stderr, err)
		return exitFailed
	}
	opts.log.Writer = stderr
	logger := promslog.New(&opts.log)
	store, err := history.Open(history.Config{Path: opts.historyPath, Retention: time.Duration(opts.historyRetention), Logger: logger})
	if err != nil {
		fmt.Fprintf(stderr, "leader-exporter: --history.path=%s: %v\n", opts.historyPath, err)
		return exitFailed
	}
	recorder := history.NewRecorder(store, logger)
	stopRecorder := runRecorder(recorder)
	fleet := newFleet(opts, logger, recorder)
	defer func() { // the watchers first: the recorder writes what they saw last
		fleet.close()
		stopRecorder()
		if err := store.Close(); err != nil {
			logger.ErrorContext(ctx, "the history was not closed", slog.Any("error", err))
		}
	}()
	if err := fleet.load(ctx); err != nil {
		printProblems(stderr, err)
		return exitFailed
	}
	handler := newHandler(fleet, recorder, opts.lifecycle, logger)
	logger.InfoContext(ctx, "starting", slog.String("version", version.Info()))
	ctx, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { fleet.reloadOnHangup(ctx, hangups) })
	err = listenAndServe(ctx, opts.web, handler, fleet.events.Close, logger)
	cancel()
	background.Wait()
	if err != nil {
		fmt.Fprintf(stderr, "leader-exporter: serve: --web.listen-address=%s: %v\n", strings.Join(*opts.web.WebListenAddresses, ","), err)
		return exitFailed
	}
	logger.InfoContext(ctx, "stopped")
	return exitOK
}

// runRecorder runs the recorder until the returned function is called, which waits some seconds for what it writes last.
func runRecorder(recorder *history.Recorder) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background()) // it outlasts the watchers
	done := make(chan struct{})
	go func() {
		defer close(done)
		recorder.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// reloadOnHangup reloads the configuration at each SIGHUP until ctx ends.
func (f *fleet) reloadOnHangup(ctx context.Context, hangups <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			_ = f.reload(ctx) // logged
		}
	}
}

// reload loads the configuration again and logs how that went.
func (f *fleet) reload(ctx context.Context) error {
	err := f.load(ctx)
	if err != nil {
		f.logger.ErrorContext(ctx, "the configuration was not reloaded, the last good one goes on", slog.Any("error", err))
		return err
	}
	f.logger.InfoContext(ctx, "configuration reloaded")
	return nil
}

// listenAndServe serves until ctx ends, and then lets requests that are under way finish; onStop ends those that never do.
func listenAndServe(ctx context.Context, flags *web.FlagConfig, handler http.Handler, onStop func(), logger *slog.Logger) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	server.RegisterOnShutdown(onStop)
	stopped := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		defer close(stopped)
		if err := server.Shutdown(bounded); err != nil {
			_ = server.Close() // a request that takes longer is cut off; that is no fault of the exporter
		}
	})
	err := web.ListenAndServe(server, flags, logger)
	if unhook() {
		return err // it never served
	}
	<-stopped
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// newHandler routes the exporter's paths.
func newHandler(fleet *fleet, terms api.History, lifecycle bool, logger *slog.Logger) http.Handler {
	process := prometheus.NewRegistry()
	process.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		versioncollector.NewCollector("leader_exporter"),
	)
	pages := api.New(api.Config{
		Targets: fleet.targets, History: terms, Events: fleet.events, Version: version.Version, Logger: logger,
	})
	mux := http.NewServeMux()
	for _, path := range []string{"/{$}", "/static/", "/api/"} {
		mux.Handle(path, pages)
	}
	mux.Handle("GET /metrics", &scrapes{handler: newMetrics(process, fleet, logger), generation: fleet.generation.Load})
	// The process answers, so it is healthy; it runs, so its configuration was loaded. Neither asks the database.
	mux.HandleFunc("GET /-/healthy", answer("leader-exporter is healthy.\n"))
	mux.HandleFunc("GET /-/ready", answer("leader-exporter is ready.\n"))
	mux.HandleFunc("POST /-/reload", func(w http.ResponseWriter, r *http.Request) {
		if !lifecycle {
			http.Error(w, "reloading by HTTP is off: start with --web.enable-lifecycle, or send SIGHUP", http.StatusForbidden)
			return
		}
		if err := fleet.reload(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer("configuration reloaded\n")(w, r)
	})
	return mux
}

// answer returns a handler that always says the same.
func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, text)
	}
}
