package leader_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// R25: behind a pooler in session mode a replica leads, checks that the session is its own, and hands over.
func TestSessionPoolerElectsALeader(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		server.SetPooler(leadertest.SessionPooler)
		a := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		b := newReplica(t, server.Client("b").Pool(t), interval).run(t)
		time.Sleep(20*interval + interval/2)
		first, second := a, b
		if b.IsLeader() {
			first, second = b, a
		}
		first.requireLeader(t)
		second.requireStandby(t)
		if got := append(a.logs.With("WARN"), b.logs.With("WARN")...); len(got) != 0 {
			t.Errorf("warnings: %q", got)
		}
		if got := first.logs.With("acquired"); len(got) != 1 {
			t.Errorf("terms: %q, want 1", got)
		}
		_, pid, _ := server.Holder(key())
		if got := first.logs.With("acquired"); !strings.Contains(got[0], "pid="+decimal(pid)) {
			t.Errorf("%q does not name backend %d", got, pid)
		}
		first.stop()
		<-first.returned
		requireHolder(t, server, "nobody")
		time.Sleep(interval + interval/2)
		second.requireLeader(t)
	})
}

// R25, L26: behind a pooler in transaction mode nobody leads, no lock is taken, and every attempt names the cause.
func TestTransactionPoolerElectsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		server.SetPooler(leadertest.TransactionPooler)
		server.Observe(func(change leadertest.LockChange) { t.Errorf("a lock was taken: %+v", change) })
		a := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		b := newReplica(t, server.Client("b").Pool(t), interval).run(t)
		time.Sleep(20*interval + interval*3/4)
		for _, r := range []*replica{a, b} {
			r.requireStandby(t)
			if got := r.logs.With("WARN leader: acquire lock connection: a connection pooler does not keep this client's session to itself"); len(got) != 21 {
				t.Errorf("%d warnings name the pooler, want one a check; log %q", len(got), r.logs.With(""))
			}
		}
	})
}

// R25: a pooler that failed the trial is tried again after 12 intervals, and not at the checks between.
func TestFailedTrialIsRepeatedAfterTwelveIntervals(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		server.SetPooler(leadertest.TransactionPooler)
		begin := time.Now()
		newReplica(t, server.Client("a").Pool(t), interval).run(t)
		time.Sleep(24*interval + interval/2)
		var trials []time.Duration
		for _, statement := range server.Statements() {
			if strings.HasPrefix(statement.SQL, "SELECT set_config('idle_session_timeout'") {
				trials = append(trials, statement.At.Sub(begin))
			}
		}
		if want := []time.Duration{0, 12 * interval, 24 * interval}; !slices.Equal(trials, want) {
			t.Errorf("trials at %v, want them at %v", trials, want)
		}
	})
}

// R25: a pooler that changes to transaction mode under a leader ends its term at the next check.
func TestPoolerThatStopsToKeepTheSessionEndsTheTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		server.SetPooler(leadertest.SessionPooler)
		a := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		time.Sleep(interval + interval/2)
		a.requireLeader(t)
		server.SetPooler(leadertest.TransactionPooler)
		_, pid, _ := server.Holder(key())
		time.Sleep(interval)
		a.requireStandby(t)
		if got := count(server, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE pid = "+decimal(pid)+" AND"); got != 1 {
			t.Errorf("%d statements end backend %d, want 1", got, pid)
		}
		if got := a.logs.With("WARN background leader lock lost"); len(got) != 1 || !strings.Contains(got[0], "pooler") {
			t.Errorf("log: %q", a.logs.With(""))
		}
		time.Sleep(4 * interval)
		requireHolder(t, server, "nobody")
	})
}

// R25: a pooler that took the backend with the lock away before the lock is given back keeps no lock: the replica ends that backend,
// which may be so busy with other clients that its idle time never ends it.
func TestUnlockOnAnotherBackendEndsTheOneWithTheLock(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		server.SetPooler(leadertest.SessionPooler)
		a := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		time.Sleep(interval + interval/2)
		a.requireLeader(t)
		_, pid, _ := server.Holder(key())
		server.SetPooler(leadertest.TransactionPooler)
		if err := a.StepDown(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "no longer held the lock") {
			t.Errorf("StepDown = %v", err)
		}
		if got := count(server, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE pid = "+decimal(pid)+" AND"); got != 1 {
			t.Errorf("%d statements end backend %d, want 1", got, pid)
		}
	})
}

// R25: a stop in the middle of the trial by which the pooler is told apart ends it at once.
func TestStopDuringThePoolerTrialReturnsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		server.SetPooler(leadertest.TransactionPooler)
		a := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		begin := time.Now()
		a.stop()
		<-a.returned
		if took := time.Since(begin); took != 0 {
			t.Errorf("Run returned %v after the cancel", took)
		}
		if lines := a.logs.With(""); len(lines) != 0 {
			t.Errorf("a stopped attempt was logged: %q", lines)
		}
	})
}

// R25: a pooler that is slow to answer proves nothing, since it may pass the answer and the end of the backend on together.
func TestSlowPoolerProvesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		server.SetPooler(leadertest.SessionPooler)
		host := server.Client("a")
		pool := host.Pool(t)
		if err := pool.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		host.Delay(interval / 4)
		a := newReplica(t, pool, interval).run(t)
		time.Sleep(interval - time.Millisecond)
		a.requireStandby(t)
		if got := a.logs.With("WARN leader: acquire lock connection: the connection goes through a pooler that took 1.25s to answer"); len(got) != 1 {
			t.Errorf("log: %q", a.logs.With(""))
		}
		host.Delay(interval / 8)
		time.Sleep(2 * interval)
		a.requireLeader(t)
	})
}

// R25: a session on which the trial failed or proved nothing is closed, since the trial has bounded its idle time.
func TestTrialReturnsNoSessionToThePool(t *testing.T) {
	for name, behind := range map[string]struct {
		pooler  leadertest.Pooler
		delay   time.Duration
		warning string
	}{
		"failed":         {leadertest.TransactionPooler, 0, "does not keep this client's session to itself"},
		"proved nothing": {leadertest.SessionPooler, interval / 4, "a pooler that took 1.25s to answer"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *leadertest.Server) {
				server.SetPooler(behind.pooler)
				host := server.Client("a")
				host.Delay(behind.delay)
				a := newReplica(t, host.Pool(t, neverPing), interval).run(t)
				time.Sleep(interval - time.Millisecond)
				if pooled, open := a.pool.Stat().TotalConns(), server.Sessions(); pooled != 0 || open != 0 {
					t.Errorf("%d connections in the pool and %d sessions after the trial, want none", pooled, open)
				}
				time.Sleep(interval) // with another trial, or without when the first one failed
				if got := a.pool.Stat().TotalConns(); got != 0 {
					t.Errorf("%d connections in the pool after the second check, want none", got)
				}
				if got := a.logs.With(behind.warning); len(got) != 2 {
					t.Errorf("log: %q, want two warnings with %q", a.logs.With(""), behind.warning)
				}
			})
		})
	}
}

// R25: a connection that took so long that the trial is cut short condemns no pooler.
func TestSlowConnectionDoesNotCondemnThePooler(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		server.SetPooler(leadertest.SessionPooler)
		slow := interval * 8 / 10
		pool := server.Client("a").Pool(t, func(c *pgxpool.Config) {
			dial := c.ConnConfig.DialFunc
			c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
				time.Sleep(slow)
				slow = 0
				return dial(ctx, network, addr)
			}
		})
		begin := time.Now()
		a := newReplica(t, pool, interval).run(t)
		if led := since(begin, a.IsLeader); led > 3*interval {
			t.Errorf("led after %v; log %q", led, a.logs.With(""))
		}
	})
}
