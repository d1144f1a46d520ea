package replica

import (
	"context"
	"fmt"

	"github.com/plexsphere/leader-exporter/cmd/plexsphere-demo/work"
	"github.com/plexsphere/leader-exporter/leader"
)

// surface is a part of the API that brings background work along.
type surface struct {
	name  string
	build func(ctx context.Context, rt *Runtime) error
}

// surfaces returns the registry. The background leader holds index 0: every later surface reads the elector while it is built.
func surfaces() []surface {
	return []surface{
		{"background-leader", buildBackgroundLeader},
		{"work", buildTicked},
		{"audit", buildPaced},
		{"every-replica", buildEveryReplica},
	}
}

// build builds all surfaces in order. Without a DSN there is no elector, and so no loop that could be left ungated by accident.
func (rt *Runtime) build(ctx context.Context) error {
	if rt.Options.DSN == "" {
		rt.Logger.WarnContext(ctx, "PLEXSPHERE_DSN is not set: no election, no background loops")
		return nil
	}
	for _, s := range surfaces() {
		if err := s.build(ctx, rt); err != nil {
			return fmt.Errorf("replica: surface %s: %w", s.name, err)
		}
	}
	for name := range rt.Options.Breaks {
		if !rt.launched[name] {
			return fmt.Errorf("--break=%s: there is no loop of that name", name)
		}
	}
	return nil
}

// buildBackgroundLeader builds the elector on the worker tier's pool and publishes it.
func buildBackgroundLeader(ctx context.Context, rt *Runtime) error {
	if err := rt.openPool(ctx); err != nil {
		return err
	}
	var err error
	rt.Leader, err = leader.New(leader.Config{
		Pool: rt.Pool, CheckInterval: rt.Options.CheckInterval, Logger: rt.Logger, Registerer: rt.Registry,
	})
	if err != nil {
		return err
	}
	return rt.Supervisor.Add("background-leader", rt.Leader.Run)
}

// probed maps the loops that carry a probe, and so a boot pass, to its name. All but one are the loop's.
func probed() map[string]string {
	return map[string]string{
		"invitations-expire":            "invitations-expire",
		"approvals-expire":              "approvals-expire",
		"access-session-sweep":          "access-session-sweeper",
		"actions-timeout":               "actions-timeout",
		"management-fleet-reconcile":    "management-fleet-reconcile",
		"provisioning-broker-reconcile": "provisioning-broker-reconcile",
		"artifacts-refresh":             "artifacts-refresh",
	}
}

// buildTicked places the fifteen loops that tick on the leader.
func buildTicked(_ context.Context, rt *Runtime) error {
	var names []string
	steps := make(map[string][]work.Step)
	for _, s := range work.Ticked() {
		if len(steps[s.Loop]) == 0 {
			names = append(names, s.Loop)
		}
		steps[s.Loop] = append(steps[s.Loop], s)
	}
	for _, name := range names {
		if err := rt.runLeaderTicker(name, rt.passOf(steps[name]...)); err != nil {
			return err
		}
	}
	return nil
}

// buildPaced places the two loops that pace themselves while the replica leads.
func buildPaced(_ context.Context, rt *Runtime) error {
	for _, s := range []work.Step{work.Archive(), work.Mirror()} {
		if err := rt.runWhileLeader(s.Loop, rt.drain(s)); err != nil {
			return err
		}
	}
	return nil
}
