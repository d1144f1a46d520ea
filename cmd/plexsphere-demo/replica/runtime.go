package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/plexsphere/leader-exporter/cmd/plexsphere-demo/work"
	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/worker"
)

// Options is what the command line and the environment say.
type Options struct {
	Name          string        // application_name of the database sessions
	Address       string        // where to serve
	DSN           string        // of the worker tier's pool; empty wires no background loop
	CheckInterval time.Duration // of the elector
	LoopInterval  time.Duration // cadence of the ticked loops
	NonceTTL      time.Duration // cadence of sse-nonce-sweep; 0 is LoopInterval

	Restarts          int              // budget of each worker
	MinBackoff        time.Duration    // before the first restart
	StepDownExhausted bool             // an exhausted worker gives leadership up
	Cooldown          time.Duration    // how long a replica keeps away after a step-down at its stop
	BootTimeout       time.Duration    // bound on the schema's creation, and on each boot pass
	Breaks            map[string]Break // loops that are broken on purpose, by name
}

// Runtime is what surfaces share while they are built. It belongs to the goroutine that boots.
type Runtime struct {
	Options    Options
	Logger     *slog.Logger
	Registry   *prometheus.Registry
	Supervisor *worker.Supervisor
	Pool       *pgxpool.Pool   // of the worker tier; nil without a DSN
	Leader     *leader.Elector // nil without a DSN

	boots    []bootPass
	probes   []probe
	launched map[string]bool // loops by name
}

// bootPass is a pass that runs on every replica before it reports ready.
type bootPass struct {
	name string
	run  func(ctx context.Context) error
}

// newRuntime makes an empty Runtime.
func newRuntime(opts Options, logger *slog.Logger) (*Runtime, error) {
	rt := &Runtime{Options: opts, Logger: logger, Registry: prometheus.NewRegistry(), launched: make(map[string]bool)}
	rt.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cfg := worker.Config{Restarts: opts.Restarts, MinBackoff: opts.MinBackoff, Logger: logger, Registerer: rt.Registry}
	if opts.StepDownExhausted {
		cfg.OnExhausted = func(ctx context.Context, name string, _ error) { // it stays so: the replica must not lead again
			rt.stepDown(ctx, "worker "+name+" is exhausted", forever)
		}
	}
	var err error
	if rt.Supervisor, err = worker.New(cfg); err != nil {
		return nil, err
	}
	rt.probes = append(rt.probes, probe{"workers", rt.Supervisor.Ready})
	return rt, nil
}

// openPool makes the pool of the worker tier.
func (rt *Runtime) openPool(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(rt.Options.DSN)
	if err != nil {
		return errors.New("PLEXSPHERE_DSN: malformed connection string") // the driver's text may repeat the password
	}
	config.ConnConfig.RuntimeParams["application_name"] = rt.Options.Name
	config.ConnConfig.ConnectTimeout = rt.Options.CheckInterval
	config.MaxConns = max(config.MaxConns, workerTierConns)
	rt.Pool, err = pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("replica: make the pool of the worker tier: %w", err)
	}
	return nil
}

// forever outlasts every process.
const forever = 100 * 365 * 24 * time.Hour

// workerTierConns lets a slow loop leave connections for the others, and for the election.
const workerTierConns = 8

// boot runs the boot passes, one after the other, until ctx ends. One that fails, or that something keeps waiting, shows in its
// loop's probe until a tick.
func (rt *Runtime) boot(ctx context.Context) {
	ctx = context.WithValue(ctx, bootMark{}, true)
	for _, b := range rt.boots {
		if ctx.Err() != nil {
			return
		}
		if err := rt.bootOne(ctx, b); err != nil {
			rt.Logger.WarnContext(ctx, "boot pass failed", slog.String("loop", b.name), slog.Any("error", err))
		}
	}
}

func (rt *Runtime) bootOne(ctx context.Context, b bootPass) error {
	bounded, cancel := context.WithTimeout(ctx, rt.Options.BootTimeout)
	defer cancel()
	return b.run(bounded)
}

// createSchema creates what is not there yet. It waits for a server that cannot be reached, or not yet. What it refuses, it refuses for good.
func (rt *Runtime) createSchema(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, rt.Options.BootTimeout)
	defer cancel()
	retry := time.NewTicker(createRetry)
	defer retry.Stop()
	for {
		err := work.Create(bounded, rt.Pool)
		if !worthRetry(err) {
			return err
		}
		select {
		case <-bounded.Done():
			return err
		case <-retry.C:
		}
	}
}

// worthRetry reports whether the server could not be reached, or says that it starts, stops, or has no connection left just now (PostgreSQL manual,
// appendix A).
func worthRetry(err error) bool {
	var unreached *pgconn.ConnectError
	var refused *pgconn.PgError
	if !errors.As(err, &unreached) {
		return false
	}
	return !errors.As(err, &refused) || slices.Contains([]string{"57P03", "57P01", "53300"}, refused.Code)
}

// createRetry is the time between two attempts to reach the server at the start.
const createRetry = 100 * time.Millisecond

// stepDown hands leadership over, if this replica has it.
func (rt *Runtime) stepDown(ctx context.Context, why string, cooldown time.Duration) {
	if rt.Leader == nil {
		return
	}
	rt.Logger.InfoContext(ctx, "stepping down", slog.String("because", why))
	if err := rt.Leader.StepDown(ctx, cooldown); err != nil {
		rt.Logger.WarnContext(ctx, "step down", slog.Any("error", err))
	}
}
