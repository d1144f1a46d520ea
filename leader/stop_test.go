package leader_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/internal/logtest"
	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// R10, L1: a clean stop unlocks, closes, and says so; the next leader follows within one interval.
func TestCleanStopHandsOverWithinOneInterval(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		a := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		b := newReplica(t, server.Client("b").Pool(t), interval).run(t)
		time.Sleep(interval + interval/2)
		begin := time.Now()
		a.stop()
		if err := <-a.returned; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("Run returned %v after the cancel, want at once", took)
		}
		a.requireStandby(t)
		requireHolder(t, server, "nobody")
		if got := len(a.logs.With("INFO background leader lock released")); got != 1 {
			t.Errorf("%d lines of the released lock, want 1", got)
		}
		if led := since(begin, b.IsLeader); led > interval {
			t.Errorf("next leader after %v, want at most one interval", led)
		}
	})
}

// R10, L13: contexts of the term have ended, IsLeader is false and the gauge 0 before the unlock is on the wire.
func TestTermEndsBeforeTheUnlockIsSent(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		var a *replica
		var term context.Context
		unlocks := 0
		watch := func(statement string) {
			if !strings.Contains(statement, "SELECT pg_advisory_unlock") {
				return
			}
			unlocks++
			if !errors.Is(context.Cause(term), leader.ErrLeadershipLost) || a.IsLeader() || a.gauge(t) != 0 {
				t.Errorf("at the unlock: cause %v, IsLeader %v, gauge %v", context.Cause(term), a.IsLeader(), a.gauge(t))
			}
		}
		pool := server.Client("a").Pool(t, func(c *pgxpool.Config) { c.ConnConfig.DialFunc = tap(c.ConnConfig.DialFunc, watch) })
		a = newReplica(t, pool, interval).run(t)
		synctest.Wait()
		ctx, cancel, _ := a.Term(context.Background())
		defer cancel()
		term = ctx
		a.stop()
		<-a.returned
		if unlocks != 1 {
			t.Errorf("%d unlocks were sent, want 1", unlocks)
		}
	})
}

// R6, L2: a cancel in the middle of the leader's check neither cuts the check off nor costs the clean unlock.
func TestCancelDuringACheckStillUnlocks(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		host := server.Client("a")
		a := newReplica(t, host.Pool(t), interval).run(t)
		synctest.Wait()
		ctx, cancel, _ := a.Term(context.Background())
		defer cancel()
		host.Delay(time.Second)
		time.Sleep(interval + interval/10) // SELECT 1 is on its way
		a.stop()
		synctest.Wait()
		if ctx.Err() == nil || a.IsLeader() {
			t.Error("the term goes on while the check is under way")
		}
		begin := time.Now()
		<-a.returned
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("Run returned %v after the cancel", took)
		}
		requireHolder(t, server, "nobody")
		if got := count(server, "SELECT pg_advisory_unlock"); got != 1 {
			t.Errorf("%d unlocks arrived, want 1", got)
		}
		if got := server.CancelRequests(); got != 0 {
			t.Errorf("%d cancel requests were dialled, want none", got)
		}
	})
}

// R10: Run returns two seconds after the cancel even when the server answers nothing, whatever it was waiting for.
func TestRunReturnsInTimeWhateverTheServerDoes(t *testing.T) {
	for name, cutAfter := range map[string]time.Duration{
		"before the unlock":  interval / 2,
		"during a check":     interval - time.Millisecond,
		"long before a stop": interval / 4,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *leadertest.Server) {
				host := server.Client("a")
				a := newReplica(t, host.Pool(t), interval).run(t)
				time.Sleep(cutAfter)
				host.Cut()
				time.Sleep(interval / 2)
				begin := time.Now()
				a.stop()
				err := <-a.returned
				if took := time.Since(begin); took < 2*time.Second || took > 3*time.Second || err != nil {
					t.Errorf("Run = %v, %v after the cancel; want nil after 2 s and a little", err, took)
				}
				a.requireStandby(t)
				if failed, lost := a.logs.With("WARN background leader unlock failed"), a.logs.With("lock lost"); len(failed) != 1 || len(lost) != 0 {
					t.Errorf("log of a stop without an answer: %q; want the failed unlock", a.logs.With(""))
				}
				time.Sleep(4 * interval)
				requireHolder(t, server, "nobody")
			})
		})
	}
}

// R10, L16, L18: stopping a standby logs no loss and releases nothing.
func TestStoppingAStandbyIsSilent(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		b := newReplica(t, server.Client("b").Pool(t), interval).run(t)
		synctest.Wait()
		b.stop()
		if err := <-b.returned; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		if lines := b.logs.With(""); len(lines) != 0 {
			t.Errorf("a standby that never led logged %q", lines)
		}
		if got := count(server, "SELECT pg_advisory_unlock"); got != 0 {
			t.Errorf("%d unlocks were sent, want none", got)
		}
	})
}

// R10: a cancel while the lock statement is under way leaves no lock and begins no term.
func TestCancelWhileTheLockIsBeingGranted(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		host := server.Client("a")
		pool := host.Pool(t)
		if err := pool.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		host.Delay(time.Second)
		a := newReplica(t, pool, interval).run(t)
		synctest.Wait()
		requireHolder(t, server, "a")
		a.stop()
		<-a.returned
		requireHolder(t, server, "nobody")
		if lines := a.logs.With("acquired"); len(lines) != 0 {
			t.Errorf("a term began after the cancel: %q", lines)
		}
	})
}

// R10: a cancel while the pool still connects ends Run at once, since nothing is locked yet.
func TestCancelWhileConnectingReturnsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		host := server.Client("a")
		host.Cut()
		a := newReplica(t, host.Pool(t), interval).run(t)
		synctest.Wait()
		begin := time.Now()
		a.stop()
		<-a.returned
		if took := time.Since(begin); took != 0 {
			t.Errorf("Run returned %v after the cancel, want at once", took)
		}
		if lines := a.logs.With(""); len(lines) != 0 {
			t.Errorf("a stopped attempt was logged: %q", lines)
		}
	})
}

// panicky is a logger that does something on the line that contains a text.
type panicky struct {
	*logtest.Lines
	on string
	do func()
}

func (p panicky) Handle(ctx context.Context, r slog.Record) error {
	err := p.Lines.Handle(ctx, r)
	if strings.Contains(r.Message, p.on) {
		p.do()
	}
	return err
}

// R11, R12, L14: a panic that unwinds Run ends the term and closes the session without an unlock; Run may then be called
// again. runtime.Goexit unwinds it in the same way.
func TestPanicLeavesNoLockBehind(t *testing.T) {
	for name, unwind := range map[string]func(){
		"panic":          func() { panic("boom") },
		"runtime.Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *leadertest.Server) {
				armed := true
				r := newReplica(t, server.Client("a").Pool(t), interval)
				var term context.Context
				handler := panicky{Lines: r.logs, on: "acquired", do: func() {
					if armed {
						ctx, cancel, _ := r.Term(context.Background())
						t.Cleanup(cancel)
						term = ctx
						unwind()
					}
				}}
				elector, err := leader.New(leader.Config{Pool: r.pool, CheckInterval: interval, Logger: slog.New(handler), Registerer: r.registry})
				if err != nil {
					t.Fatal(err)
				}
				r.Elector = elector
				unwound := make(chan any)
				go func() {
					defer func() { unwound <- recover() }()
					_ = r.Run(t.Context())
				}()
				if value := <-unwound; name == "panic" && value != "boom" {
					t.Errorf("Run panicked with %v, want boom", value)
				}
				r.requireStandby(t)
				synctest.Wait()
				requireHolder(t, server, "nobody")
				if !errors.Is(context.Cause(term), leader.ErrLeadershipLost) {
					t.Errorf("cause of the term's context = %v, want ErrLeadershipLost", context.Cause(term))
				}
				if got := r.logs.With("WARN background leader lock abandoned after a panic"); len(got) != 1 {
					t.Errorf("log: %q", r.logs.With(""))
				}
				if got := count(server, "SELECT pg_advisory_unlock"); got != 0 {
					t.Errorf("%d unlocks were sent on a connection that may be in the middle of a statement", got)
				}
				armed = false
				r.run(t)
				synctest.Wait()
				r.requireLeader(t)
			})
		})
	}
}

// R11: a panic that unwinds Run on a standby passes and logs no abandoned lock.
func TestPanicOfAStandbyAbandonsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		server.Stop()
		r := newReplica(t, server.Client("a").Pool(t), interval)
		handler := panicky{Lines: r.logs, on: "acquire lock connection", do: func() { panic("boom") }}
		elector, err := leader.New(leader.Config{Pool: r.pool, Logger: slog.New(handler)})
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if value := recover(); value != "boom" {
					t.Errorf("Run panicked with %v, want boom", value)
				}
			}()
			_ = elector.Run(t.Context())
		}()
		if lines := r.logs.With("abandoned"); len(lines) != 0 {
			t.Errorf("log: %q", lines)
		}
	})
}

// R10: a stop at the moment of a check unlocks all the same, and nothing is called lost.
func TestStopAtTheMomentOfACheckUnlocks(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		server.SetRecording(false)
		a := newReplica(t, server.Client("a").Pool(t), interval)
		for range 500 { // two goroutines race at each
			ctx, cancel := context.WithTimeout(t.Context(), interval)
			if err := a.Run(ctx); err != nil {
				t.Error(err)
			}
			cancel()
		}
		if got := a.logs.With("lock lost"); len(got) != 0 {
			t.Errorf("%d of 500 were a loss: %s", len(got), got[0])
		}
	})
}

// R12: one Run at a time, and again after it has returned.
func TestRunIsForOneAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		r := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "already running") {
			t.Errorf("a second Run = %v, want an error", err)
		}
		r.requireLeader(t)
		r.stop()
		<-r.returned
		r.run(t)
		synctest.Wait()
		r.requireLeader(t)
	})
}

// R12: when Run has returned, nothing of it is left that could end a term of the next Run.
func TestRunWaitsForItsGoroutines(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		r := newReplica(t, server.Client("a").Pool(t), interval)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(interval/2, cancel)
		if err := r.Run(&tardy{Context: ctx}); err != nil {
			t.Fatal(err)
		}
		r.run(t)
		for range 20 {
			time.Sleep(interval / 10)
			r.requireLeader(t)
		}
	})
}

// tardy is a context whose first AfterFunc, which is the one that ends Run's term, comes a second late.
type tardy struct {
	context.Context
	asked bool
}

func (c *tardy) AfterFunc(f func()) (stop func() bool) {
	if !c.asked {
		c.asked = true
		return context.AfterFunc(c.Context, func() {
			time.Sleep(time.Second)
			f()
		})
	}
	return context.AfterFunc(c.Context, f)
}

// R10: an unlock that the server denies is no release.
func TestDeniedUnlockIsReported(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		r := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		server.Script("SELECT pg_advisory_unlock(1886156915, 1)", "f")
		r.stop()
		<-r.returned
		if got := r.logs.With("WARN background leader unlock failed"); len(got) != 1 || !strings.Contains(got[0], "no longer held") {
			t.Errorf("log: %q", r.logs.With(""))
		}
	})
}

// R10: Run on an ended context touches nothing.
func TestRunOnAnEndedContextAsksNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		r := newReplica(t, server.Client("a").Pool(t), interval)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		if got := r.pool.Stat().AcquireCount() + r.pool.Stat().CanceledAcquireCount(); got != 0 {
			t.Errorf("%d acquires", got)
		}
	})
}

// R10: cut off, Run still closes the socket before it returns, and does not leave that to pgx's 15 s.
func TestRunClosesTheSocketBeforeItReturns(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		host := server.Client("a")
		var closes atomic.Int32
		a := newReplica(t, host.Pool(t, func(c *pgxpool.Config) {
			c.ConnConfig.DialFunc = tapClose(c.ConnConfig.DialFunc, func() { closes.Add(1) })
		}), interval).run(t)
		synctest.Wait()
		host.Cut()
		a.stop()
		<-a.returned
		if closes.Load() == 0 {
			t.Error("the lock connection is still open")
		}
	})
}

// tap wraps a dialer so that see gets every write before it leaves.
func tap(dial func(ctx context.Context, network, addr string) (net.Conn, error), see func(string)) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &tapped{Conn: conn, see: see}, err
	}
}

type tapped struct {
	net.Conn
	mu  sync.Mutex
	see func(string)
}

func (c *tapped) Write(p []byte) (int, error) {
	func() {
		c.mu.Lock()
		defer c.mu.Unlock() // see may panic
		c.see(string(p))
	}()
	return c.Conn.Write(p)
}

// closing is a connection whose Close is seen before it happens.
type closing struct {
	net.Conn
	see func()
}

func (c closing) Close() error {
	c.see()
	return c.Conn.Close()
}

// tapClose wraps a dialer so that see is called before a connection closes.
func tapClose(dial func(context.Context, string, string) (net.Conn, error), see func()) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return closing{conn, see}, nil
	}
}
