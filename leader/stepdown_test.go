package leader_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/internal/logtest"
	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// R23: a step-down ends the term, has given the lock back when it returns, and keeps the replica away for the cooldown.
func TestStepDownHandsOverAndRests(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		a := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		b := newReplica(t, server.Client("b").Pool(t), interval).run(t)
		time.Sleep(interval / 2)
		term, cancel, _ := a.Term(t.Context())
		defer cancel()
		begin := time.Now()
		if err := a.StepDown(t.Context(), 10*interval); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("StepDown took %v, want nothing with a server that answers", took)
		}
		if !errors.Is(context.Cause(term), leader.ErrLeadershipLost) {
			t.Errorf("cause of the term's context = %v", context.Cause(term))
		}
		a.requireStandby(t)
		requireHolder(t, server, "nobody")
		if got := a.logs.With("INFO background leader lock released"); len(got) != 1 {
			t.Errorf("log: %q", a.logs.With(""))
		}
		if led := since(begin, b.IsLeader); led > interval {
			t.Errorf("next leader after %v, want at most one interval", led)
		}
		b.stop()
		<-b.returned
		led := since(begin, a.IsLeader)
		if led < 10*interval || led > 11*interval {
			t.Errorf("the replica led again after %v, want between the cooldown and an interval more", led)
		}
	})
}

// R23: a step-down returns when the lock connection is closed, however long that takes.
func TestStepDownWaitsForTheCloseOfTheLockConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		var closed atomic.Bool
		pool := server.Client("a").Pool(t, func(c *pgxpool.Config) {
			c.ConnConfig.DialFunc = tapClose(c.ConnConfig.DialFunc, func() {
				time.Sleep(time.Second)
				closed.Store(true)
			})
		})
		a := newReplica(t, pool, interval).run(t)
		synctest.Wait()
		a.requireLeader(t)
		if err := a.StepDown(t.Context(), time.Hour); err != nil {
			t.Error(err)
		}
		if !closed.Load() {
			t.Error("StepDown returned before the lock connection was closed")
		}
	})
}

// R23: on a standby a step-down keeps it from leading; the longest rest counts.
func TestStepDownOfAStandbyKeepsItAway(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		a := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		b := newReplica(t, server.Client("b").Pool(t), interval).run(t)
		time.Sleep(interval / 2)
		begin := time.Now()
		for _, cooldown := range []time.Duration{5 * interval, interval, 0, -interval} {
			if err := b.StepDown(t.Context(), cooldown); err != nil {
				t.Error(err)
			}
		}
		before := count(server, "pg_try_advisory_lock")
		a.stop()
		<-a.returned
		led := since(begin, b.IsLeader)
		if led < 5*interval || led > 6*interval {
			t.Errorf("led after %v, want between 5 and 6 intervals", led)
		}
		if got := count(server, "pg_try_advisory_lock") - before; got != 1 {
			t.Errorf("%d lock statements, want none during the rest", got)
		}
	})
}

// R23: without a Run there is nothing to give back; the rest counts for the Run to come.
func TestStepDownBeforeRunDelaysIt(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		a := newReplica(t, server.Client("a").Pool(t), interval)
		begin := time.Now()
		if err := a.StepDown(t.Context(), 2*interval+interval/2); err != nil {
			t.Error(err)
		}
		a.run(t)
		if led := since(begin, a.IsLeader); led < 3*interval || led > 3*interval+time.Millisecond {
			t.Errorf("led after %v, want at the first check after the rest", led)
		}
	})
}

// R23: many callers at once, one of them the work of the term itself, get one unlock and one answer.
func TestConcurrentStepDownsAreOne(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		a := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		time.Sleep(interval / 2)
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				if err := a.StepDown(t.Context(), interval); err != nil {
					t.Error(err)
				}
			})
		}
		ran, err := a.Do(t.Context(), func(ctx context.Context) error {
			if err := a.StepDown(context.WithoutCancel(ctx), interval); err != nil {
				t.Error(err)
			}
			return ctx.Err()
		})
		callers.Wait()
		if ran || err != nil {
			t.Errorf("Do = %v, %v; want the loss, which is no failure", ran, err)
		}
		if got := count(server, "SELECT pg_advisory_unlock"); got != 1 {
			t.Errorf("%d unlocks, want 1", got)
		}
	})
}

// R23: a step-down during a check waits for it; one while the lock is being granted gives it back without a term.
func TestStepDownDuringAStatementWaitsForIt(t *testing.T) {
	for name, offset := range map[string]time.Duration{"lock statement": 0, "check": interval} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *leadertest.Server) {
				host := server.Client("a")
				pool := host.Pool(t)
				if err := pool.Ping(t.Context()); err != nil {
					t.Fatal(err)
				}
				if offset == 0 {
					host.Delay(time.Second)
				}
				a := newReplica(t, pool, interval).run(t)
				time.Sleep(offset - time.Millisecond)
				host.Delay(time.Second)
				time.Sleep(2 * time.Millisecond)
				if err := a.StepDown(t.Context(), interval); err != nil {
					t.Error(err)
				}
				a.requireStandby(t)
				requireHolder(t, server, "nobody")
				if got, want := len(a.logs.With("acquired")), int(offset/interval); got != want {
					t.Errorf("%d terms began, want %d", got, want)
				}
				if got := count(server, "SELECT pg_advisory_unlock"); got != 1 {
					t.Errorf("%d unlocks, want 1", got)
				}
			})
		})
	}
}

// R23: cut off from the server, a step-down ends the term all the same and returns the error, or that of its context.
func TestStepDownWithoutAnAnswerSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		host := server.Client("a")
		a := newReplica(t, host.Pool(t), interval).run(t)
		time.Sleep(interval / 2)
		host.Cut()
		begin := time.Now()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.StepDown(impatient, interval); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("StepDown = %v after %v, want the end of its context", err, time.Since(begin))
		}
		a.requireStandby(t)
		err := a.StepDown(t.Context(), interval)
		if took := time.Since(begin); err == nil || !strings.Contains(err.Error(), "leader: step down: unlock: no answer within 2s") || took > 3*time.Second {
			t.Errorf("StepDown = %v, %v after the first", err, took)
		}
		time.Sleep(4 * interval)
		requireHolder(t, server, "nobody")
	})
}

// R11, R23: a Run that ends, also by a panic of the Logger or of a hook during the unlock, tells those who wait for a
// step-down that the lock was not given back.
func TestEndOfRunAnswersAStepDown(t *testing.T) {
	for name, panicsOn := range map[string]string{
		"clean":             "nothing",
		"panic of a Logger": "unlock failed",
		"panic of a hook":   "unlock",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *leadertest.Server) {
				host := server.Client("a")
				var armed atomic.Bool
				pool := host.Pool(t, func(c *pgxpool.Config) {
					c.ConnConfig.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
						return panickyConn{conn, &armed}, nil
					}
				})
				a := newReplica(t, pool, interval, func(c *leader.Config) {
					c.Logger = slog.New(panicky{Lines: &logtest.Lines{}, on: panicsOn, do: func() { panic("boom") }})
				})
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				ended := make(chan any)
				go func() {
					defer func() { ended <- recover() }()
					_ = a.Run(ctx)
				}()
				time.Sleep(interval / 2)
				host.Cut()
				armed.Store(panicsOn == "unlock")
				answered := make(chan error)
				go func() { answered <- a.StepDown(t.Context(), 0) }()
				synctest.Wait()
				stop()
				if err := <-answered; err == nil {
					t.Error("StepDown = nil of an unlock that was never answered")
				}
				if value := <-ended; (value == nil) != (panicsOn == "nothing") {
					t.Errorf("Run panicked with %v", value)
				}
				a.requireStandby(t)
				host.Heal()
				synctest.Wait()
				requireHolder(t, server, "nobody")
			})
		})
	}
}

// R11: a panic during the unlock of a step-down comes when the term is over: it abandons no leadership, and no line says so.
func TestPanicAfterTheEndOfTheTermIsNotLoggedAsAbandoned(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		var panicked atomic.Bool
		pool := server.Client("a").Pool(t, func(c *pgxpool.Config) {
			c.ConnConfig.DialFunc = tap(c.ConnConfig.DialFunc, func(statement string) {
				// Once only: pgx sends what it could not write again, with its goodbye.
				if strings.Contains(statement, "SELECT pg_advisory_unlock") && !panicked.Swap(true) {
					panic("boom")
				}
			})
		})
		a := newReplica(t, pool, interval)
		ended := make(chan any, 1)
		go func() {
			defer func() { ended <- recover() }()
			_ = a.Run(t.Context())
		}()
		synctest.Wait()
		a.requireLeader(t)
		if err := a.StepDown(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "a panic ended Run first") {
			t.Errorf("StepDown = %v, want the panic", err)
		}
		if value := <-ended; value != "boom" {
			t.Errorf("Run panicked with %v, want boom", value)
		}
		if got := a.logs.With("abandoned"); len(got) != 0 {
			t.Errorf("log: %q", got)
		}
	})
}

// panickyConn is a connection that panics when an unlock is written to it, once armed.
type panickyConn struct {
	net.Conn
	armed *atomic.Bool
}

func (c panickyConn) Write(b []byte) (int, error) {
	if c.armed.Load() && strings.Contains(string(b), "pg_advisory_unlock") {
		panic("boom")
	}
	return c.Conn.Write(b)
}

// R23: a step-down that comes at the moment of a check unlocks all the same, and nothing is called lost.
func TestStepDownAtTheMomentOfACheckUnlocks(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		server.SetRecording(false)
		a := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		for range 500 { // two goroutines race at each
			time.Sleep(2 * interval)
			if err := a.StepDown(t.Context(), 0); err != nil {
				t.Error(err)
			}
		}
		if got := a.logs.With("lock lost"); len(got) != 0 {
			t.Errorf("%d of 500 were a loss: %s", len(got), got[0])
		}
	})
}

// R23: a step-down during a check, or an end of Run, that gets no answer returns the error.
func TestStepDownBesideAnUnansweredStatementSaysSo(t *testing.T) {
	for name, during := range map[string]func(*replica){
		"check":      func(*replica) { time.Sleep(interval) },
		"end of Run": func(r *replica) { r.stop(); time.Sleep(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *leadertest.Server) {
				host := server.Client("a")
				a := newReplica(t, host.Pool(t), interval).run(t)
				time.Sleep(interval / 2)
				host.Cut()
				during(a)
				if err := a.StepDown(t.Context(), 0); err == nil {
					t.Errorf("StepDown = nil while %s holds the lock; log %q", holder(server), a.logs.With(""))
				}
			})
		})
	}
}
