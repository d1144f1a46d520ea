package loop_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// T8, L31: each row of the spec's table of readiness, in the order of a replica's life.
func TestProbeFollowsTheTableOfReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		var fails atomic.Bool
		ticker := r.ticker(t, unless(&fails))
		require := func(moment string, want error) {
			t.Helper()
			if err := ticker.Ready(t.Context()); !errors.Is(err, want) {
				t.Errorf("%s: Ready = %v, want %v", moment, err, want)
			}
		}
		require("before any election result", nil)
		fails.Store(true)
		pass(2 * every)
		require("standby, while another leads", nil)

		r.elector.Lead()
		pass(every)
		require("leader, last tick failed", errBroken)
		pass(3 * every)
		require("leader, ticks still fail", errBroken)
		fails.Store(false)
		pass(every)
		require("leader, a later tick succeeded", nil)

		fails.Store(true)
		pass(every)
		r.elector.Lose()
		pass(every / 2)
		require("demoted, no standby tick yet", errBroken)
		pass(every / 2)
		require("demoted, first standby tick", nil)

		r.elector.Lead()
		pass(every)
		require("leader again, tick failed", errBroken)
		if want := 6; r.ticks(t, "error") != want {
			t.Errorf("%d failed ticks, want %d", r.ticks(t, "error"), want)
		}
	})
}

// T8: booted, no tick yet: the probe reports the boot pass, which no leadership gates and no tick counts.
func TestProbeReportsTheBootPass(t *testing.T) {
	for name, tc := range map[string]struct {
		pass func(context.Context) error
		want string
	}{
		"ok":    {func(context.Context) error { return nil }, ""},
		"error": {func(context.Context) error { return errBroken }, "broken"},
		"panic": {func(context.Context) error { panic("boom") }, `plexsphere: background loop "sweep": tick panicked: boom`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				passes := 0
				ticker := r.ticker(t, func(ctx context.Context) error { passes++; return tc.pass(ctx) })
				synctest.Wait()
				r.stop()
				<-r.returned // a Boot wants the Ticker for itself
				text := func(err error) string {
					if err == nil {
						return ""
					}
					return err.Error()
				}
				if got := text(ticker.Boot(t.Context())); got != tc.want || passes != 1 {
					t.Errorf("Boot = %s after %d passes, want %s", got, passes, tc.want)
				}
				r.run(t, ticker.Run)
				pass(every / 2)
				if got := text(ticker.Ready(t.Context())); got != tc.want {
					t.Errorf("booted, no tick yet: Ready = %s, want %s", got, tc.want)
				}
				pass(every / 2)
				if got := text(ticker.Ready(t.Context())); got != "" {
					t.Errorf("first standby tick: Ready = %s", got)
				}
				r.requireTicks(t, 0, 0, 0, 0)
				if passes != 1 {
					t.Errorf("%d passes", passes)
				}
			})
		})
	}
}
