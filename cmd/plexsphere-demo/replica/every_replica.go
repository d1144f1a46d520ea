package replica

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/plexsphere/leader-exporter/cmd/plexsphere-demo/work"
	"github.com/plexsphere/leader-exporter/loop"
)

// buildEveryReplica places the five loops that stay on every replica. What only one replica may do in them has a gate.
func buildEveryReplica(_ context.Context, rt *Runtime) error {
	gate := loop.Gate(rt.Leader.IsLeader)
	capacity := &capacityCollector{rt: rt, gate: gate}
	watcher := &keyWatcher{rt: rt}
	assigner := &relayAssigner{}
	for _, l := range []struct {
		name string
		pass func(ctx context.Context) error
	}{
		{"capacity-collector", capacity.sample},
		{"observability-routing-consume", rt.consume(gate)},
		{"sse-relay", rt.everywhere(work.Relay())},
		{"sse-signing-key-rotation-watcher", watcher.look},
		{"peers-relay-assigner", assigner.beat},
	} {
		if err := rt.runOnEveryReplica(l.name, l.pass); err != nil {
			return err
		}
	}
	return nil
}

// everywhere is a pass of every replica; its statement keeps replicas out of each other's way.
func (rt *Runtime) everywhere(s work.Step) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, err := s.Run(ctx, rt.Pool, work.Replica, 0)
		return err
	}
}

// consume takes this replica's share of the deliveries; the leader alone removes orphaned durables.
func (rt *Runtime) consume(gate loop.Gate) func(ctx context.Context) error {
	take, remove := rt.everywhere(work.Consume()), work.RemoveDurables()
	return func(ctx context.Context) error {
		if err := take(ctx); err != nil || !gate.Open() {
			return err
		}
		fence, _ := rt.Leader.Fence()
		_, err := remove.Run(ctx, rt.Pool, work.Gated, fence)
		return err
	}
}

// The hysteresis of the capacity collector, in percent.
const (
	crossesAbove = 80
	crossesBelow = 60
)

// capacityCollector follows the same samples on every replica; the audit row of a crossing is written by the leader.
type capacityCollector struct {
	rt   *Runtime
	gate loop.Gate
	full bool // owned by the loop
}

func (c *capacityCollector) sample(ctx context.Context) error {
	var used int
	if err := c.rt.Pool.QueryRow(ctx, "SELECT used_percent FROM capacity").Scan(&used); err != nil {
		return err
	}
	crosses := !c.full && used >= crossesAbove || c.full && used <= crossesBelow
	if !crosses {
		return nil
	}
	c.full = !c.full
	if !c.gate.Open() {
		return nil
	}
	fence, _ := c.rt.Leader.Fence()
	return work.Cross(ctx, c.rt.Pool, used, fence)
}

// keyWatcher drops this process's cached signing key when another version is current.
type keyWatcher struct {
	rt     *Runtime
	cached int64 // version; owned by the loop
}

func (w *keyWatcher) look(ctx context.Context) error {
	var current int64
	if err := w.rt.Pool.QueryRow(ctx, "SELECT version FROM sse_signing_key").Scan(&current); err != nil {
		return err
	}
	if w.cached != current {
		w.rt.Logger.InfoContext(ctx, "signing key cache invalidated", slog.Int64("version", current))
		w.cached = current
	}
	return nil
}

// relayAssigner flips a flag of this process again and again, and writes nothing.
type relayAssigner struct{ ready atomic.Bool }

func (a *relayAssigner) beat(context.Context) error {
	a.ready.Store(true)
	return nil
}
