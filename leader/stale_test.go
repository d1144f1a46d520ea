package leader_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/internal/logtest"
	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// stuck is a replica whose Run blocks in its Logger as soon as it leads, as in a process that stands still.
func stuck(t *testing.T, server *leadertest.Server) (r *replica, resume func()) {
	t.Helper()
	released := make(chan struct{})
	r = newReplica(t, server.Client("stuck").Pool(t), interval, func(c *leader.Config) {
		handler, ok := c.Logger.Handler().(*logtest.Lines)
		if !ok {
			t.Fatal("the replica's logger is another one")
		}
		c.Logger = slog.New(panicky{Lines: handler, on: "acquired", do: func() { <-released }})
	})
	return r.run(t), func() { close(released) }
}

// R21: a leader whose Run makes no check leads no more after three intervals, one before the server frees its lock, so that
// it never begins work beside the next leader. Once Run goes on it is a standby.
func TestLeaderThatMakesNoCheckIsNoneAfterThreeIntervals(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		begin := time.Now()
		a, resume := stuck(t, server)
		synctest.Wait()
		a.requireLeader(t)
		ctx, cancel, _ := a.Term(t.Context())
		defer cancel()
		b := newReplica(t, server.Client("b").Pool(t), interval).run(t)
		ended := since(begin, func() bool { return ctx.Err() != nil })
		if ended < 3*interval || ended > 3*interval+time.Millisecond || !errors.Is(context.Cause(ctx), leader.ErrLeadershipLost) {
			t.Errorf("the term's context ended after %v with cause %v, want 3 intervals and ErrLeadershipLost", ended, context.Cause(ctx))
		}
		a.requireStandby(t)
		if ran, _ := a.Do(t.Context(), func(context.Context) error { return nil }); ran {
			t.Error("Do ran work after the term was stale")
		}
		if _, leave, leads := a.Term(t.Context()); leads {
			leave()
			t.Error("Term hands out a context after the term was stale")
		}
		requireHolder(t, server, "stuck")
		led := since(begin, b.IsLeader)
		if led < 4*interval || led > 5*interval {
			t.Errorf("the next leader came after %v, want between 4 and 5 intervals", led)
		}
		resume()
		synctest.Wait()
		a.requireStandby(t)
		if got := a.logs.With("WARN background leader lock lost"); len(got) != 1 {
			t.Errorf("log: %q", a.logs.With(""))
		}
		b.requireLeader(t)
	})
}

// R21: a term that was stale does not come back, even when its session still holds the lock.
func TestStaleTermDoesNotComeBack(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		a, resume := stuck(t, server)
		time.Sleep(3*interval + interval/2)
		requireHolder(t, server, "stuck")
		resume()
		synctest.Wait()
		a.requireStandby(t)
		requireHolder(t, server, "nobody")
		if got := a.logs.With("no good check within 3 check intervals (15s)"); len(got) != 1 {
			t.Errorf("log: %q", a.logs.With(""))
		}
		time.Sleep(interval)
		synctest.Wait()
		a.requireLeader(t)
	})
}

// R21: checks that are merely slow do not make a term stale.
func TestSlowChecksKeepTheTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		host := server.Client("a")
		a := newReplica(t, host.Pool(t), interval).run(t)
		synctest.Wait()
		host.Delay(interval - time.Millisecond)
		for range 100 {
			time.Sleep(interval)
			a.requireLeader(t)
		}
		if got := a.logs.With("acquired"); len(got) != 1 {
			t.Errorf("%d terms, want 1", len(got))
		}
	})
}

// R21: the three intervals count from the moment at which the last good check was sent, not from its answer and not from the
// grant, and the contexts of the term end at their end though nobody asks.
func TestStalenessCountsFromWhenTheLastGoodCheckWasSent(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		first := newReplica(t, server.Client("first").Pool(t), interval, wakeOnRelease).run(t)
		synctest.Wait()
		host, resume := server.Client("stuck"), make(chan struct{})
		a := newReplica(t, host.Pool(t, func(c *pgxpool.Config) {
			c.ConnConfig.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) {
				if n.PID == 0 { // of the test, not of the replica's own unlock
					<-resume
				}
			}
		}), interval, wakeOnRelease).run(t)
		begin := time.Now()
		synctest.Wait()
		first.stop()
		synctest.Wait()
		ctx, cancel, _ := a.Term(t.Context())
		defer cancel()
		host.Delay(interval / 2)
		time.Sleep(2*interval + interval*3/4) // the check that was sent after two intervals has been answered
		host.Delay(0)
		a.requireLeader(t)
		server.Notify("background_leader_1886156915_1_2")
		ended := since(begin, func() bool { return ctx.Err() != nil })
		if ended < 5*interval || ended > 5*interval+time.Millisecond {
			t.Errorf("the term's context ended after %v, want 2 intervals and 3", ended)
		}
		a.requireStandby(t)
		close(resume)
	})
}
