package leader_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// R1, R4: the first check is immediate, the others come every CheckInterval.
func TestRunChecksAtOnceAndThenEveryInterval(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		begin := time.Now()
		r := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		r.requireLeader(t)
		requireHolder(t, server, "a")
		time.Sleep(3*interval + interval/2)
		var pings []time.Duration
		for _, statement := range server.Statements() {
			if statement.SQL == "SELECT 1" {
				pings = append(pings, statement.At.Sub(begin))
			}
		}
		if got, want := fmt.Sprint(pings), fmt.Sprint([]time.Duration{interval, 2 * interval, 3 * interval}); got != want {
			t.Errorf("the leader checked at %s, want %s", got, want)
		}
		if got := len(r.logs.With("INFO background leader lock acquired")); got != 1 {
			t.Errorf("%d lines of the acquired lock, want 1", got)
		}
	})
}

// R2, L9, L38: a refused standby returns its connection as it was and asks once an interval, however many there are.
func TestStandbyBorrowsOneConnectionAndLeavesItAsItWas(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		// The pool's health check borrows every idle connection for a moment: keep it off the moments of our checks, which
		// the fake clock would otherwise make coincide.
		b := newReplica(t, server.Client("b").Pool(t, func(c *pgxpool.Config) { c.HealthCheckPeriod = 24 * time.Hour }), interval).run(t)
		time.Sleep(100*interval + interval/2)
		b.requireStandby(t)
		if got := b.pool.Stat().NewConnsCount(); got != 1 {
			t.Errorf("100 refusals opened %d connections, want 1", got)
		}
		if got := b.pool.Stat().AcquiredConns(); got != 0 {
			t.Errorf("%d connections are still borrowed", got)
		}
		var timeout string
		if err := b.pool.QueryRow(t.Context(), "SHOW idle_session_timeout").Scan(&timeout); err != nil || timeout != "0" {
			t.Errorf("idle_session_timeout of the pooled connection = %s, %v; want it unchanged", timeout, err)
		}
		if got := count(server, "pg_try_advisory_lock"); got != 102 {
			t.Errorf("%d lock statements, want the leader's one and the standby's 101", got)
		}
	})
}

// L38: twenty standbys, one release, one new leader, and no burst of lock statements.
func TestOneOfManyStandbysFollows(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		first := newReplica(t, server.Client("first").Pool(t), interval).run(t)
		synctest.Wait()
		standbys := make([]*replica, 20)
		for i := range standbys {
			standbys[i] = newReplica(t, server.Client(fmt.Sprint("standby", i)).Pool(t), interval).run(t)
		}
		time.Sleep(interval / 2)
		before := count(server, "pg_try_advisory_lock")
		first.stop()
		time.Sleep(interval)
		leaders := 0
		for _, s := range standbys {
			if s.IsLeader() {
				leaders++
			}
		}
		if leaders != 1 {
			t.Errorf("%d of 20 standbys lead, want 1", leaders)
		}
		if got := count(server, "pg_try_advisory_lock") - before; got != 20 {
			t.Errorf("%d lock statements in the interval after the release, want 20", got)
		}
	})
}

// R5, L10: failed attempts are logged once a check, Run goes on, and the replica leads as soon as it can.
func TestRunOutlivesAnUnreachableServer(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		server.Stop()
		r := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		time.Sleep(5*interval - interval/2)
		r.requireStandby(t)
		warnings := r.logs.With("WARN leader: acquire lock connection: ")
		if len(warnings) != 5 {
			t.Errorf("%d warnings in 5 checks:\n%s", len(warnings), strings.Join(warnings, "\n"))
		}
		server.Start()
		time.Sleep(interval)
		r.requireLeader(t)
	})
}

// R6, L20: a standby over a black hole is bounded in every step and comes back within two intervals.
func TestStandbySurvivesABlackHole(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		a := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		host := server.Client("b")
		b := newReplica(t, host.Pool(t), interval).run(t)
		time.Sleep(3 * interval)
		host.Cut()
		time.Sleep(5 * interval)
		if len(b.logs.With("no answer within one check interval (5s)")) == 0 {
			t.Errorf("no warning names the bound:\n%s", strings.Join(b.logs.With(""), "\n"))
		}
		a.stop()
		time.Sleep(interval) // the lock is free, b still cut off
		host.Heal()
		time.Sleep(2 * interval)
		b.requireLeader(t)
	})
}

// R7, L6: a reply that comes after the deadline leaves no lock behind, whatever the pool does with a timeout.
func TestLateReplyToTheLockStatementLeavesNoLock(t *testing.T) {
	for name, configure := range contextWatchers() {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *leadertest.Server) {
				host := server.Client("a")
				pool := host.Pool(t, configure)
				if err := pool.Ping(t.Context()); err != nil {
					t.Fatal(err)
				}
				host.Delay(interval + time.Second)
				a := newReplica(t, pool, interval).run(t)
				synctest.Wait()
				requireHolder(t, server, "a") // the server granted it, a does not know yet
				time.Sleep(interval + 100*time.Millisecond)
				requireHolder(t, server, "nobody")
				a.requireStandby(t)
				b := newReplica(t, server.Client("b").Pool(t), interval).run(t)
				time.Sleep(5 * interval)
				b.requireLeader(t)
				a.requireStandby(t)
			})
		})
	}
}

// R7: an answer to the lock statement that cannot be read is no leadership. It may come from a session that has the lock, so
// that session is closed, and the election goes on.
func TestUnreadableAnswerToTheLockStatementLeavesNoLock(t *testing.T) {
	for answer, warning := range map[string]string{
		"granted 2": `unexpected grant "2" of the lock statement`, // and no fence
		"perhaps":   `unexpected outcome "perhaps" of the lock statement`,
	} {
		t.Run(answer, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *leadertest.Server) {
				first := newReplica(t, server.Client("first").Pool(t), interval).run(t)
				synctest.Wait()
				a := newReplica(t, server.Client("a").Pool(t), interval).run(t)
				time.Sleep(interval / 2)
				sent := server.Statements()
				server.Script(sent[len(sent)-1].SQL, answer) // the lock statement that a will send on this session again
				first.stop()
				<-first.returned
				if _, err := a.pool.Exec(t.Context(), "SELECT pg_try_advisory_lock(1886156915, 1)"); err != nil {
					t.Fatal(err)
				}
				requireHolder(t, server, "a")
				time.Sleep(interval)
				a.requireStandby(t)
				requireHolder(t, server, "nobody")
				if got := a.logs.With(""); len(got) != 1 || !strings.Contains(got[0], "WARN leader: acquire lock connection: "+warning) {
					t.Errorf("log: %q, want one warning of the %s", got, warning)
				}
				time.Sleep(interval)
				a.requireLeader(t)
			})
		})
	}
}

// R8, R20: a leader whose session ends is a standby at once and says why.
func TestTerminatedLeaderDemotesItselfAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		a := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		time.Sleep(interval / 2)
		ctx, cancel, _ := a.Term(context.Background())
		defer cancel()
		terminateHolder(t, server)
		synctest.Wait()
		a.requireStandby(t)
		if cause := context.Cause(ctx); !errors.Is(cause, leader.ErrLeadershipLost) {
			t.Errorf("cause of the term's context = %v, want ErrLeadershipLost", cause)
		}
		if got := a.logs.With("WARN background leader lock lost"); len(got) != 1 || !strings.Contains(got[0], "57P01") {
			t.Errorf("lines of the lost lock: %q; want one with the ping error", got)
		}
		time.Sleep(interval/2 - time.Millisecond)
		a.requireStandby(t)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		a.requireLeader(t) // "a standby, and tries the lock again at its next check"
	})
}

// R8, R9, L11: cut off from the server, the leader has demoted itself after two intervals, its session is gone after four,
// and another replica leads after five.
func TestPartitionedLeaderIsReplacedWithinFiveIntervals(t *testing.T) {
	for name, configure := range contextWatchers() {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *leadertest.Server) {
				host := server.Client("a")
				a := newReplica(t, host.Pool(t, configure), interval).run(t)
				synctest.Wait()
				b := newReplica(t, server.Client("b").Pool(t), interval).run(t)
				time.Sleep(interval + time.Millisecond) // just after a check, the worst moment
				host.Cut()
				cut := time.Now()
				demoted := since(cut, func() bool { return !a.IsLeader() })
				free := since(cut, func() bool { return holder(server) != "a" })
				led := since(cut, b.IsLeader)
				if demoted > 2*interval {
					t.Errorf("demoted after %v, want at most 2 intervals", demoted)
				}
				if free < 3*interval || free > 4*interval {
					t.Errorf("lock free after %v, want between 3 and 4 intervals", free)
				}
				if led > 5*interval {
					t.Errorf("next leader after %v, want at most 5 intervals", led)
				}
				host.Heal()
				time.Sleep(3 * interval)
				a.requireStandby(t)
				b.requireLeader(t)
			})
		})
	}
}

// R5: a standby whose pooled session ended with a server that was restarted between two checks asks on a new one within the
// next check, and has nothing to warn about.
func TestRestartBetweenTwoChecksCostsAStandbyNone(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		neverPing := func(c *pgxpool.Config) {
			c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
		}
		a := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		b := newReplica(t, server.Client("b").Pool(t, neverPing), interval).run(t)
		time.Sleep(interval + interval/2)
		a.stop()
		<-a.returned
		server.Stop()
		server.Start()
		time.Sleep(interval / 2)
		synctest.Wait()
		b.requireLeader(t)
		if got := b.logs.With("WARN"); len(got) != 0 {
			t.Errorf("warnings: %q", got)
		}
	})
}

// R3, L28: a database that grants everything and locks nothing elects nobody.
func TestGrantThatPgLocksDoesNotShowIsNoLeadership(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		server.SetHollow(true)
		r := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		r.requireStandby(t)
		if got := r.logs.With("WARN leader: acquire lock connection: the server granted lock 1886156915/1 but pg_locks does not show it"); len(got) != 1 {
			t.Errorf("warnings: %q", r.logs.With(""))
		}
	})
}

// R3: a lock that the pooled session already holds is no leadership; its session is closed and the election goes on.
func TestGhostLockIsNoLeadership(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		pool := server.Client("a").Pool(t)
		if _, err := pool.Exec(t.Context(), "SELECT pg_try_advisory_lock(1886156915, 1)"); err != nil {
			t.Fatal(err)
		}
		r := newReplica(t, pool, interval).run(t)
		synctest.Wait()
		r.requireStandby(t)
		requireHolder(t, server, "nobody")
		if got := r.logs.With("already held lock 1886156915/1"); len(got) != 1 {
			t.Errorf("warnings: %q", r.logs.With(""))
		}
		time.Sleep(interval)
		synctest.Wait()
		r.requireLeader(t)
	})
}

// R17: the advisory locks of a server in recovery elect nobody; promotion ends that.
func TestReplicaOnAHotStandbyNeverLeads(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		server.SetRecovery(true)
		r := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		time.Sleep(2*interval + interval/2)
		r.requireStandby(t)
		if got := r.logs.With("WARN leader: acquire lock connection: the server is in recovery"); len(got) != 3 {
			t.Errorf("warnings: %q, want one a check", r.logs.With(""))
		}
		if got := r.pool.Stat().NewConnsCount(); got != 1 {
			t.Errorf("%d connections opened, want 1: nothing was locked", got)
		}
		server.SetRecovery(false)
		time.Sleep(interval)
		r.requireLeader(t)
	})
}

// R18: a server without idle_session_timeout is refused before anything is locked there.
func TestServerOlderThan14IsRefusedByName(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		server.SetVersion("13.23 (Debian 13.23-1)")
		r := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		time.Sleep(interval + interval/2)
		r.requireStandby(t)
		got := r.logs.With("WARN leader: acquire lock connection: the server is PostgreSQL 13.23 (Debian 13.23-1): " +
			"idle_session_timeout, which bounds an orphaned lock, needs PostgreSQL 14 or newer")
		if len(got) != 2 {
			t.Errorf("warnings: %q, want one a check", r.logs.With(""))
		}
		if got := count(server, "pg_try_advisory_lock"); got != 0 {
			t.Errorf("%d lock statements were sent to it", got)
		}
	})
}

// R8: the term has ended before the lock connection closes.
func TestDemotionEndsTheTermBeforeTheConnectionCloses(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		host := server.Client("a")
		var a *replica
		var goodbyes atomic.Int32
		pool := host.Pool(t, func(c *pgxpool.Config) {
			c.ConnConfig.DialFunc = tapClose(c.ConnConfig.DialFunc, func() {
				goodbyes.Add(1)
				if a.IsLeader() || a.gauge(t) != 0 {
					t.Error("the lock connection closes while the term goes on")
				}
			})
		})
		a = newReplica(t, pool, interval)
		a.run(t)
		synctest.Wait()
		host.Cut()
		time.Sleep(2*interval + time.Second)
		if goodbyes.Load() == 0 {
			t.Error("never closed")
		}
	})
}

// R8: an overdue answer ends the term before the socket is cut off.
func TestOverdueCheckEndsTheTermBeforeTheSocketIsCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		host := server.Client("a")
		var a *replica
		var cuts atomic.Int32
		pool := host.Pool(t, func(c *pgxpool.Config) {
			c.ConnConfig.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
				return cutOff{conn, func() {
					cuts.Add(1)
					a.requireStandby(t)
				}}, nil
			}
		})
		a = newReplica(t, pool, interval)
		a.run(t)
		time.Sleep(interval / 2)
		a.requireLeader(t)
		host.Cut()
		time.Sleep(2 * interval)
		if got := cuts.Load(); got != 1 {
			t.Errorf("the socket was cut off %d times, want once", got)
		}
	})
}

// cutOff is a connection whose cut-off, a deadline that has passed, is seen before it happens.
type cutOff struct {
	net.Conn
	see func()
}

func (c cutOff) SetDeadline(moment time.Time) error {
	if !moment.IsZero() && !moment.After(time.Now()) {
		c.see()
	}
	return c.Conn.SetDeadline(moment)
}

// R18: PostgreSQL 14 itself is served.
func TestServer14IsServed(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		server.SetVersion("14.0")
		r := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		r.requireLeader(t)
	})
}

// L21: many losses leave no goroutine behind. The bubble itself fails when one outlives it.
func TestTwoHundredTermsLeaveNothingBehind(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		r := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		for range 200 {
			time.Sleep(2*interval + interval/2)
			r.requireLeader(t)
			terminateHolder(t, server)
			time.Sleep(2*interval - interval/2)
		}
		synctest.Wait() // this moment is also one of a check
		if got := len(r.logs.With("background leader lock acquired")); got < 200 {
			t.Errorf("%d terms, want at least 200", got)
		}
		if stat := r.pool.Stat(); stat.AcquiredConns() != 0 || stat.TotalConns() > 1 {
			t.Errorf("%d connections borrowed and %d in all, want 0 and at most 1", stat.AcquiredConns(), stat.TotalConns())
		}
	})
}
