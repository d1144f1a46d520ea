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
		if err := rt.createSchema(ctx); err != nil {
			return err
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", opts.Address)
	if err != nil {
		return fmt.Errorf("replica: --web.listen-address: %w", err)
	}
	return rt.serve(ctx, listener)
}

// Booting is what /readyz names until the boot passes have ended.
const Booting = "booting"

// phase is why a replica is not ready, whatever its probes say.
type phase struct{ name, why string }

// serve serves, runs the boot passes and then the workers, until ctx ends or the server does.
func (rt *Runtime) serve(ctx context.Context, listener net.Listener) error {
	working, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	var running sync.WaitGroup
	var workErr, serveErr error

	var unready atomic.Pointer[phase] // nil is the time in between
	unready.Store(&phase{Booting, "the boot passes have not ended"})
	server := &http.Server{Handler: rt.routes(&unready), ReadHeaderTimeout: time.Second}
	served := make(chan struct{})
	running.Go(func() {
		defer close(served)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			serveErr = fmt.Errorf("replica: serve: %w", err)
		}
	})
	rt.boot(ctx)
	running.Go(func() { workErr = rt.Supervisor.Run(working) })
	unready.Store(nil)
	rt.Logger.InfoContext(ctx, "replica started", slog.String("name", rt.Options.Name), slog.String("address", listener.Addr().String()))
	select {
	case <-ctx.Done():
	case <-served: // a replica that cannot be scraped does not go on
	}
	unready.Store(&phase{"stopping", "the replica was told to stop"})
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	rt.stepDown(draining, "the replica stops", rt.Options.Cooldown)
	stopWork()
	shutdownErr := server.Shutdown(draining)
	running.Wait()
	return errors.Join(workErr, serveErr, shutdownErr)
}

// routes returns what the replica serves.
func (rt *Runtime) routes(unready *atomic.Pointer[phase]) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(rt.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		answer := rt.ready(r.Context())
		if p := unready.Load(); p != nil {
			answer.Ready = false
			answer.Probes[p.name] = Probe{Error: p.why}
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
