package leader_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/lockkey"
)

// A thousand checks are those of a fleet: one replica alone would take minutes, or an interval within which a busy machine
// does not always answer.
const (
	fleetSize     = 40
	fleetChecks   = 1000
	fleetInterval = time.Second
)

// takeLock makes the connection the holder of the lock, so that all replicas are standbys.
func takeLock(t *testing.T, admin *pgx.Conn) {
	t.Helper()
	if _, err := admin.Exec(t.Context(), "SELECT pg_advisory_lock(1886156915, 1)"); err != nil {
		t.Fatal(err)
	}
}

// requireCheap watches a running fleet for a thousand checks and fails unless each of them is one round trip, of one and the
// same statement, on a connection that is there, and changes nothing on the server. Where the machine stands still for an
// interval, an unanswered check costs a connection (R7) or the term (R8): that replica's checks do not count for a while.
func requireCheap(t *testing.T, name, statement string, admin *pgx.Conn, fleet []*metered) {
	t.Helper()
	checks, length, unwritten := 0, 0, 0
	for begin := time.Now(); checks < fleetChecks || unwritten == 0; {
		if time.Since(begin) > 4*patience {
			t.Fatalf("within %v only %d checks were answered, and %d times no term changed meanwhile", 4*patience, checks, unwritten)
		}
		s := observe(t, admin, fleet, statement)
		for i, said := range s.said {
			if s.lines[i] > 0 {
				continue
			}
			requireChecks(t, said, statement, s.took)
			if s.opened[i] != 0 {
				t.Fatalf("a replica opened %d connections", s.opened[i])
			}
			checks, length = checks+len(said), len(said[0])
		}
		if s.terms == 0 {
			unwritten++
			if s.before != s.after {
				t.Fatalf("the server went from %+v to %+v, want no difference", s.before, s.after)
			}
		}
	}
	fmt.Printf("cost: %s: %d checks, a round trip of %d bytes each; no new connection, no byte of WAL, no transaction id\n", name, checks, length)
}

// stretch is what was seen of a fleet that made some checks.
type stretch struct {
	before, after books
	took          time.Duration
	said          [][]string // by each replica
	opened        []int      // connections of each replica
	lines         []int      // logged by each replica
	terms         int        // log lines about terms
}

// observe lets each replica make ten checks. What has just been logged has no after-effects on them.
func observe(t *testing.T, admin *pgx.Conn, fleet []*metered, statement string) (s stretch) {
	t.Helper()
	for _, m := range fleet {
		s.lines = append(s.lines, -len(m.logs.With("")))
		s.terms -= len(m.logs.With("background leader lock"))
	}
	settle(t, fleet, statement)
	s.before = readBooks(t, admin)
	begin, from := time.Now(), make([]int, len(fleet))
	for i, m := range fleet {
		said, connections := m.said(t)
		from[i] = len(said)
		s.opened = append(s.opened, -connections)
	}
	for i, m := range fleet {
		m.awaitSaid(t, from[i]+10)
	}
	for i, m := range fleet {
		said, connections := m.said(t)
		s.said = append(s.said, said[from[i]:])
		s.opened[i] += connections
	}
	s.took, s.after = time.Since(begin), readBooks(t, admin)
	for i, m := range fleet {
		s.lines[i] += len(m.logs.With(""))
		s.terms += len(m.logs.With("background leader lock"))
	}
	return s
}

// settle waits until each replica has sent its check two times more. Before it may connect, listen, or lock.
func settle(t *testing.T, fleet []*metered, statement string) {
	t.Helper()
	from := make([]int, len(fleet))
	for i, m := range fleet {
		from[i] = len(m.awaitSaid(t, 1))
	}
	for i, m := range fleet {
		pgtest.Eventually(t, patience, "two checks with "+statement, func() (bool, string) {
			said, _ := m.said(t)
			return number(said[from[i]:], statement) >= 2, strings.Join(append(said[from[i]:], m.logs.With("")...), "\n")
		})
	}
}

// number returns how many of the statements contain the text.
func number(statements []string, text string) (n int) {
	for _, s := range statements {
		if strings.Contains(s, text) {
			n++
		}
	}
	return n
}

// requireChecks fails unless a replica sent nothing but checks, of one statement, and no more of them than are due.
func requireChecks(t *testing.T, said []string, statement string, within time.Duration) {
	t.Helper()
	// A slow machine makes fewer checks than one an interval, none makes more.
	if most := int(within/fleetInterval) + 2; len(said) > most {
		t.Fatalf("%d statements within %v, where at most %d checks were made: %q", len(said), within, most, said)
	}
	for _, s := range said {
		if s != said[0] || !strings.Contains(s, statement) {
			t.Fatalf("a check sent %q, want one statement with %q", s, statement)
		}
	}
}

// R2: a standby's check is one round trip on a connection that is there. It opens none, writes nothing, takes no transaction
// id, and leaves the session as it was.
func TestCostOfAStandbysCheckIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	server, admin := quietCluster(t)
	takeLock(t, admin)
	fleet := make([]*metered, fleetSize)
	sessions, borrowed := make([]string, fleetSize), make([]int64, fleetSize)
	for i := range fleet {
		fleet[i] = newMetered(t, server, fleetInterval, neverPing)
		sessions[i] = fleet[i].session(t)
		borrowed[i] = fleet[i].pool.Stat().AcquireCount()
		fleet[i].run(t)
		fleet[i].awaitSaid(t, 1)
	}
	requireCheap(t, "a standby", "pg_try_advisory_lock", admin, fleet)
	whole := 0
	for i, m := range fleet {
		m.stop()
		<-m.returned
		if len(m.logs.With("WARN")) > 0 {
			continue // an unanswered check has replaced the session
		}
		whole++
		checks := m.pool.Stat().AcquireCount() - borrowed[i]
		if said, connections := m.said(t); int64(len(said))-borrowed[i] != checks || connections != 1 {
			t.Errorf("%d checks took %d round trips on %d connections", checks, int64(len(said))-borrowed[i], connections)
		}
		if got := m.session(t); got != sessions[i] {
			t.Errorf("the session was %q and is %q", sessions[i], got)
		}
	}
	if whole == 0 {
		t.Error("no standby had each of its checks answered")
	}
}

// R4, R8: a leader's check is one round trip on the lock connection, which is its only one, and writes nothing.
func TestCostOfALeadersCheckIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	server, admin := quietCluster(t)
	fleet := make([]*metered, fleetSize)
	for i := range fleet {
		fleet[i] = newMetered(t, server, fleetInterval, neverPing, ownLock(i))
		fleet[i].run(t)
		fleet[i].awaitSaid(t, 1)
	}
	requireCheap(t, "a leader", "SELECT 1", admin, fleet)
}

// R24: a standby that listens pays the same for its checks as one that does not.
func TestCostOfAListeningStandbysCheckIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	server, admin := quietCluster(t)
	takeLock(t, admin)
	fleet := make([]*metered, fleetSize)
	for i := range fleet {
		fleet[i] = newMetered(t, server, fleetInterval, neverPing, wakeOnRelease)
		fleet[i].run(t)
		fleet[i].awaitSaid(t, 1)
	}
	requireCheap(t, "a standby with WakeOnRelease", "pg_try_advisory_lock", admin, fleet)
}

// R2, R8, R24: pgxpool pings a connection that was idle for more than a second before it lends it. So a standby's check takes
// two round trips where the interval is longer, unless ShouldPing or a connection of its own spares it the first.
func TestCostOfAnIntervalAboveASecondIsThePoolsPing(t *testing.T) {
	t.Parallel()
	const above, checks, ping, lock = 1500 * time.Millisecond, 3, "-- ping", "pg_try_advisory_lock"
	server, admin := quietCluster(t)
	takeLock(t, admin)
	for _, c := range []struct {
		name      string
		shape     func(*pgxpool.Config)
		configure func(*leader.Config)
		check     string
		pings     int
	}{
		{"a standby", asItComes, func(*leader.Config) {}, lock, checks},
		{"a standby whose pool never pings", neverPing, func(*leader.Config) {}, lock, 0},
		{"a standby with WakeOnRelease", asItComes, wakeOnRelease, lock, 0},
		{"a leader", asItComes, ownLock(0), "SELECT 1", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := newMetered(t, server, above, c.shape, c.configure)
			m.run(t)
			undisturbed(t, []*replica{m.replica}, func() (judge func()) {
				n := len(m.awaitSaid(t, 1))
				from := len(m.awaitSaid(t, n+3))
				said := m.awaitSaid(t, from+c.pings+checks)[from : from+c.pings+checks]
				return func() {
					pings, asked := number(said, ping), number(said, c.check)
					if pings != c.pings || asked != checks {
						t.Errorf("%d pings and %d checks, want %d and %d: %q", pings, asked, c.pings, checks, said)
					}
					fmt.Printf("cost: %s, interval %v: %d checks, %d round trips\n", c.name, above, asked, len(said))
				}
			})
		})
	}
}

func asItComes(*pgxpool.Config) {}

func neverPing(c *pgxpool.Config) {
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
}

// ownLock gives a replica a lock that no other asks for.
func ownLock(i int) func(*leader.Config) {
	return func(c *leader.Config) { c.Key = lockkey.Pair(1886156915, int32(i+2)) }
}
