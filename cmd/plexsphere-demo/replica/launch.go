package replica

import (
	"context"
	"log/slog"
	"time"

	"github.com/plexsphere/leader-exporter/cmd/plexsphere-demo/work"
	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/loop"
)

// bootMark is in the context of a boot pass. Only who makes the pass knows that it is one: a tick on a replica that does not
// lead must not pass for it in the books.
type bootMark struct{}

func isBoot(ctx context.Context) bool { return ctx.Value(bootMark{}) != nil }

// passOf makes a pass of steps, one after the other.
func (rt *Runtime) passOf(steps ...work.Step) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		origin := work.Tick
		if isBoot(ctx) {
			origin = work.Boot
		}
		fence, _ := leader.FenceFrom(ctx)
		for _, s := range steps {
			if _, err := s.Run(ctx, rt.Pool, origin, fence); err != nil {
				return err
			}
		}
		return nil
	}
}

// runLeaderTicker places a pass that ticks on the leader, with its boot pass and its probe where it has one.
func (rt *Runtime) runLeaderTicker(name string, pass func(ctx context.Context) error) error {
	cfg := rt.loopConfig(name)
	if cfg.Every = rt.Options.LoopInterval; name == "sse-nonce-sweep" && rt.Options.NonceTTL > 0 {
		cfg.Every = rt.Options.NonceTTL
	}
	broken := rt.Options.Breaks[name]
	tick := broken.wrap(pass)
	ticker, err := loop.NewTicker(cfg, func(ctx context.Context) error {
		if isBoot(ctx) {
			return pass(ctx) // it stays whole
		}
		return tick(ctx)
	})
	if err != nil {
		return err
	}
	if probeName, ok := probed()[name]; ok {
		rt.boots = append(rt.boots, bootPass{name, ticker.Boot})
		rt.probes = append(rt.probes, probe{probeName, ticker.Ready})
	}
	return rt.add(name, broken.wrapWorker(ticker.Run))
}

// runWhileLeader places a loop that paces itself, one term at a time.
func (rt *Runtime) runWhileLeader(name string, run func(ctx context.Context) error) error {
	broken := rt.Options.Breaks[name]
	w, err := loop.NewWhileLeader(rt.loopConfig(name), broken.wrap(run))
	if err != nil {
		return err
	}
	return rt.add(name, broken.wrapWorker(w.Run))
}

// runOnEveryReplica places a loop that runs whether or not the replica leads.
func (rt *Runtime) runOnEveryReplica(name string, pass func(ctx context.Context) error) error {
	broken := rt.Options.Breaks[name]
	return rt.add(name, broken.wrapWorker(func(ctx context.Context) error {
		rt.paced(ctx, name, broken.wrap(pass))
		return nil
	}))
}

// add registers the worker of a loop.
func (rt *Runtime) add(name string, run func(ctx context.Context) error) error {
	rt.launched[name] = true
	return rt.Supervisor.Add(name, run)
}

func (rt *Runtime) loopConfig(name string) loop.Config {
	return loop.Config{Name: name, Leader: rt.Leader, Logger: rt.Logger, Registerer: rt.Registry}
}

// drain is a loop that paces itself: it goes on at once while there is something to do. It tells of an outage and outlasts it,
// so that a database that is away does not spend its restart budget.
func (rt *Runtime) drain(s work.Step) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		fence, _ := leader.FenceFrom(ctx)
		rt.paced(ctx, s.Loop, func(ctx context.Context) error {
			for {
				if n, err := s.Run(ctx, rt.Pool, work.Term, fence); n == 0 || err != nil {
					return err
				}
			}
		})
		return nil
	}
}

// paced makes passes at the loops' cadence until ctx ends.
func (rt *Runtime) paced(ctx context.Context, name string, p func(ctx context.Context) error) {
	ticker := time.NewTicker(rt.Options.LoopInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := p(ctx); err != nil && ctx.Err() == nil {
			rt.Logger.WarnContext(ctx, "background pass failed", slog.String("loop", name), slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}
