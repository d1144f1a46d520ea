package leader_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

func wakeOnRelease(c *leader.Config) { c.WakeOnRelease = true }

// wakeful makes n running replicas with WakeOnRelease, of which the first leads.
func wakeful(t *testing.T, server *leadertest.Server, n int) []*replica {
	t.Helper()
	replicas := make([]*replica, n)
	for i := range replicas {
		pool := server.Client(fmt.Sprint("replica", i)).Pool(t, func(c *pgxpool.Config) { c.HealthCheckPeriod = 24 * time.Hour })
		replicas[i] = newReplica(t, pool, interval, wakeOnRelease).run(t)
		synctest.Wait()
	}
	replicas[0].requireLeader(t)
	return replicas
}

// leaders returns those of the replicas that lead.
func leaders(replicas []*replica) []*replica {
	var found []*replica
	for _, r := range replicas {
		if r.IsLeader() {
			found = append(found, r)
		}
	}
	return found
}

// R24: a clean stop and a step-down hand over at once, to one of the standbys.
func TestReleaseWakesTheStandbys(t *testing.T) {
	for name, release := range map[string]func(*testing.T, *replica){
		"stop": func(_ *testing.T, r *replica) {
			r.stop()
			<-r.returned
		},
		"step-down": func(t *testing.T, r *replica) {
			if err := r.StepDown(t.Context(), time.Hour); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *leadertest.Server) {
				replicas := wakeful(t, server, 5)
				time.Sleep(interval / 2)
				for range 4 {
					release(t, leaders(replicas)[0])
					synctest.Wait()
					if got := leaders(replicas); len(got) != 1 {
						t.Fatalf("%d replicas lead at the moment after the release, want 1", len(got))
					}
				}
			})
		})
	}
}

// R24: a standby that listens keeps one connection, asks once an interval all the same, and on a lock that goes without a
// notification leads at its next check.
func TestPollingStaysTheFallback(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		replicas := wakeful(t, server, 2)
		before := count(server, "pg_try_advisory_lock")
		time.Sleep(20*interval + interval/2)
		if got := count(server, "pg_try_advisory_lock") - before; got != 20 {
			t.Errorf("%d lock statements in 20 intervals, want 20", got)
		}
		if got := replicas[1].pool.Stat(); got.NewConnsCount() != 1 || got.AcquiredConns() != 0 {
			t.Errorf("the standby opened %d connections and borrows %d, want 1 and none", got.NewConnsCount(), got.AcquiredConns())
		}
		terminateHolder(t, server)
		synctest.Wait()
		if got := leaders(replicas); len(got) != 0 {
			t.Errorf("%d lead before the next check", len(got))
		}
		time.Sleep(interval)
		synctest.Wait()
		if got := leaders(replicas); len(got) != 1 {
			t.Errorf("%d replicas lead an interval later, want 1", len(got))
		}
	})
}

// R24: a standby whose listening session ends, or whose network is cut, listens again at its next checks.
func TestStandbyListensAgain(t *testing.T) {
	for name, disturb := range map[string]func(*leadertest.Server, *leadertest.Client){
		"server restart": func(s *leadertest.Server, _ *leadertest.Client) {
			s.Stop()
			s.Start()
		},
		"cut network": func(_ *leadertest.Server, c *leadertest.Client) {
			c.Cut()
			time.Sleep(5 * interval)
			c.Heal()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *leadertest.Server) {
				first := newReplica(t, server.Client("first").Pool(t), interval, wakeOnRelease).run(t)
				synctest.Wait()
				host := server.Client("second")
				second := newReplica(t, host.Pool(t), interval, wakeOnRelease).run(t)
				time.Sleep(interval / 2)
				disturb(server, host)
				time.Sleep(3 * interval)
				leads, waits := first, second
				if second.IsLeader() {
					leads, waits = second, first
				}
				leads.requireLeader(t)
				waits.requireStandby(t)
				if err := leads.StepDown(t.Context(), time.Hour); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				waits.requireLeader(t)
			})
		})
	}
}

// R24: a lock that is given back after the standby was refused and before it listens notifies nobody, and still the standby
// leads at once.
func TestReleaseBeforeTheStandbyListensIsNotMissed(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		first := wakeful(t, server, 1)[0]
		pool := server.Client("second").Pool(t, func(c *pgxpool.Config) {
			c.ConnConfig.DialFunc = tap(c.ConnConfig.DialFunc, func(statement string) {
				if strings.Contains(statement, "LISTEN") {
					if err := first.StepDown(t.Context(), time.Hour); err != nil {
						t.Error(err)
					}
				}
			})
		})
		second := newReplica(t, pool, interval, wakeOnRelease).run(t)
		synctest.Wait()
		second.requireLeader(t)
	})
}

// R24: a notification without a release makes a standby look, and nobody lead who should not. The leader ignores it.
func TestNotificationWithoutAReleaseIsHarmless(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		replicas := wakeful(t, server, 2)
		time.Sleep(interval / 2)
		before := len(server.Statements())
		server.Notify("background_leader_1886156915_1_2")
		synctest.Wait()
		if got := server.Statements()[before:]; len(got) != 1 || got[0].Client != "replica1" {
			t.Errorf("statements after the notification: %v, want one of the standby", got)
		}
		replicas[0].requireLeader(t)
		replicas[1].requireStandby(t)
		before = count(server, "SELECT 1")
		polls := count(server, "pg_try_advisory_lock")
		time.Sleep(interval)
		if got := count(server, "SELECT 1") - before; got != 1 {
			t.Errorf("the leader made %d checks in the interval, want 1", got)
		}
		if got := count(server, "pg_try_advisory_lock") - polls; got != 1 {
			t.Errorf("the standby made %d checks in the interval after its early one, want 1", got)
		}
	})
}

// R24: a leader that listened as a standby still has the session for it. It makes no more checks for the notifications that come.
func TestLeaderThatListenedIgnoresNotifications(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		replicas := wakeful(t, server, 2)
		time.Sleep(interval / 2)
		replicas[0].stop()
		synctest.Wait()
		replicas[1].requireLeader(t)
		before := len(server.Statements())
		for range 3 {
			server.Notify("background_leader_1886156915_1_2")
			synctest.Wait()
		}
		if got := server.Statements()[before:]; len(got) != 0 {
			t.Errorf("statements after the notifications: %v, want none", got)
		}
		replicas[1].requireLeader(t)
	})
}

// R24: off, nobody listens and nobody is notified.
func TestWithoutWakeOnReleaseNobodyListens(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		a := newReplica(t, server.Client("a").Pool(t), interval).run(t)
		synctest.Wait()
		newReplica(t, server.Client("b").Pool(t), interval).run(t)
		time.Sleep(2*interval + interval/2)
		a.stop()
		<-a.returned
		if got := count(server, "LISTEN") + count(server, "pg_notify"); got != 0 {
			t.Errorf("%d statements listen or notify, want none", got)
		}
	})
}

// R11, R24: a panic while a standby begins to listen leaves no connection borrowed.
func TestPanicWhileListeningLeavesThePoolWhole(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		newReplica(t, server.Client("first").Pool(t), interval).run(t)
		synctest.Wait()
		pool := server.Client("a").Pool(t, func(c *pgxpool.Config) {
			c.ConnConfig.DialFunc = tap(c.ConnConfig.DialFunc, func(statement string) {
				if strings.Contains(statement, "LISTEN") {
					panic("boom")
				}
			})
		})
		a := newReplica(t, pool, interval, wakeOnRelease)
		func() {
			defer func() {
				if value := recover(); value != "boom" {
					t.Errorf("Run panicked with %v, want boom", value)
				}
			}()
			_ = a.Run(t.Context())
		}()
		synctest.Wait()
		if got := pool.Stat().AcquiredConns(); got != 0 || server.Sessions() != 1 {
			t.Errorf("%d connections borrowed, %d sessions; want none and the first replica's", got, server.Sessions())
		}
	})
}

// R10, R24: a standby whose socket takes no more bytes, as one to a host that is gone, still stops in time, whatever the pool's
// context watcher.
func TestListeningStandbyWithAFullSocketStopsInTime(t *testing.T) {
	for name, configure := range contextWatchers() {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *leadertest.Server) {
				newReplica(t, server.Client("first").Pool(t), interval).run(t)
				synctest.Wait()
				var full atomic.Bool
				pool := server.Client("b").Pool(t, configure, func(c *pgxpool.Config) {
					dial := c.ConnConfig.DialFunc
					c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
						conn, err := dial(ctx, network, addr)
						return &clogged{Conn: conn, full: &full}, err
					}
				})
				b := newReplica(t, pool, interval, wakeOnRelease).run(t)
				time.Sleep(interval / 2)
				full.Store(true)
				begin := time.Now()
				b.stop()
				<-b.returned
				if took := time.Since(begin); took > 3*time.Second {
					t.Errorf("Run returned after %v", took)
				}
			})
		})
	}
}

// clogged is a socket whose send buffer is full from some moment on.
type clogged struct {
	net.Conn
	full     *atomic.Bool
	deadline atomic.Pointer[time.Time]
}

func (c *clogged) SetDeadline(moment time.Time) error {
	c.deadline.Store(&moment)
	return c.Conn.SetDeadline(moment)
}

func (c *clogged) Write(p []byte) (int, error) {
	if !c.full.Load() {
		return c.Conn.Write(p)
	}
	unread, far := net.Pipe()
	defer unread.Close()
	defer far.Close()
	if moment := c.deadline.Load(); moment != nil {
		_ = unread.SetWriteDeadline(*moment)
	}
	return unread.Write(p)
}
