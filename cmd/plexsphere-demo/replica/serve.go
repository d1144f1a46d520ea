package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/plexsphere/leader-exporter/cmd/plexsphere-demo/work"
)

// drainTimeout bounds the step-down and the requests that are under way when the replica is told to stop.
const drainTimeout = 5 * time.Second

// probe is one line of /readyz.
type probe struct {
	name  string
	check func(ctx context.Context) error
}

// Readiness is what /readyz answers: 200 if Ready, else 503.
type Readiness struct {
	Ready  bool             `json:"ready"`
	Probes map[string]Probe `json:"probes"`
}

// Probe is the outcome of one probe.
type Probe struct {
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
}

// Run boots the replica and serves until ctx ends; then it steps down, ends its work, and returns.
func Run(ctx context.Context, opts Options, logger *slog.Logger) error {
	rt, err := newRuntime(opts, logger)
	if err != nil {
		return err
	}
	if err := rt.build(ctx); err != nil {
		return err
	}
	if rt.Pool != nil {
		defer rt.Pool.Close()
		if err := work.Create(ctx, rt.Pool); err != nil {
			return err
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", opts.Address)
	if err != nil {
		return fmt.Errorf("replica: --web.listen-address: %w", err)
	}
	rt.boot(ctx) // requests that come meanwhile wait: the replica has not reported ready yet
	return rt.serve(ctx, listener)
}

// serve runs the workers and the server until ctx ends or one of them does.
func (rt *Runtime) serve(ctx context.Context, listener net.Listener) error {
	working, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	var running sync.WaitGroup
	var workErr, serveErr error
	running.Go(func() { workErr = rt.Supervisor.Run(working) })

	var stopping atomic.Bool
	server := &http.Server{Handler: rt.routes(&stopping), ReadHeaderTimeout: time.Second}
	served := make(chan struct{})
	running.Go(func() {
		defer close(served)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			serveErr = fmt.Errorf("replica: serve: %w", err)
		}
	})
	rt.Logger.InfoContext(ctx, "replica started", slog.String("name", rt.Options.Name), slog.String("address", listener.Addr().String()))
	select {
	case <-ctx.Done():
	case <-served: // a replica that cannot be scraped does not go on
	}
	stopping.Store(true)
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	rt.stepDown(draining, "the replica stops")
	stopWork()
	shutdownErr := server.Shutdown(draining)
	running.Wait()
	return errors.Join(workErr, serveErr, shutdownErr)
}

// routes returns what the replica serves.
func (rt *Runtime) routes(stopping *atomic.Bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(rt.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		answer := rt.ready(r.Context())
		if stopping.Load() {
			answer.Ready = false
			answer.Probes["stopping"] = Probe{Error: "the replica was told to stop"}
		}
		w.Header().Set("Content-Type", "application/json")
		if !answer.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
	return mux
}

// ready asks all probes.
func (rt *Runtime) ready(ctx context.Context) Readiness {
	answer := Readiness{Ready: true, Probes: make(map[string]Probe)}
	for _, p := range rt.probes {
		outcome := Probe{OK: true}
		if err := p.check(ctx); err != nil {
			outcome = Probe{Error: err.Error()}
			answer.Ready = false
		}
		answer.Probes[p.name] = outcome
	}
	return answer
}
