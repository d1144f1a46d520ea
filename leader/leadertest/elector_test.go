package leadertest_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// elector is what a test of a loop uses of either.
type elector interface {
	Do(ctx context.Context, fn func(context.Context) error) (bool, error)
	Term(parent context.Context) (context.Context, context.CancelFunc, bool)
	IsLeader() bool
}

// The stand-in answers as the elector does that it stands for, on a standby, during a term, and across its loss.
func TestElectorStandsInForTheRealOne(t *testing.T) {
	t.Run("stand-in", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var fake leadertest.Elector
			requireConduct(t, &fake, fake.Lead, fake.Lose)
		})
	})
	t.Run("real", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := leadertest.NewServer(t)
			pool := server.Client("a").Pool(t)
			actual, err := leader.New(leader.Config{Pool: pool, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			var stop context.CancelFunc
			var ended chan struct{}
			lead := func() {
				var ctx context.Context
				ctx, stop = context.WithCancel(t.Context())
				ended = make(chan struct{})
				go func() {
					defer close(ended)
					_ = actual.Run(ctx)
				}()
				time.Sleep(time.Second)
			}
			lose := func() {
				stop()
				<-ended
			}
			requireConduct(t, actual, lead, lose)
		})
	})
}

func requireConduct(t *testing.T, e elector, lead, lose func()) {
	t.Helper()
	failure := errors.New("failure")
	requireStandby := func() {
		t.Helper()
		term, cancel, leads := e.Term(t.Context())
		defer cancel()
		if leads || e.IsLeader() || !errors.Is(context.Cause(term), leader.ErrLeadershipLost) {
			t.Errorf("Term = %v, %v; IsLeader = %v; want a standby", context.Cause(term), leads, e.IsLeader())
		}
		ran, err := e.Do(t.Context(), func(context.Context) error {
			t.Error("work on a standby")
			return nil
		})
		if ran || err != nil {
			t.Errorf("Do on a standby = %v, %v", ran, err)
		}
	}
	for range 2 {
		requireStandby()
		lead()
		term, cancel, leads := e.Term(t.Context())
		left, leave, _ := e.Term(t.Context())
		leave()
		leave()
		if !leads || !e.IsLeader() || term.Err() != nil || !errors.Is(context.Cause(left), context.Canceled) {
			t.Errorf("Term = %v, %v; IsLeader = %v; want the leader", term.Err(), leads, e.IsLeader())
		}
		if ran, err := e.Do(t.Context(), func(ctx context.Context) error { return errors.Join(failure, ctx.Err()) }); !ran || !errors.Is(err, failure) {
			t.Errorf("Do on the leader = %v, %v", ran, err)
		}
		tired, giveUp := context.WithCancel(t.Context())
		if ran, err := e.Do(tired, func(context.Context) error { giveUp(); return failure }); !ran || !errors.Is(err, failure) {
			t.Errorf("Do of a caller that gave up = %v, %v", ran, err)
		}
		var cause error
		ran, err := e.Do(t.Context(), func(ctx context.Context) error {
			lose()
			cause = context.Cause(ctx)
			return failure
		})
		if ran || err != nil || !errors.Is(cause, leader.ErrLeadershipLost) || !errors.Is(context.Cause(term), leader.ErrLeadershipLost) {
			t.Errorf("Do across a loss = %v, %v; causes %v and %v", ran, err, cause, context.Cause(term))
		}
		cancel()
	}
	requireStandby()
}
