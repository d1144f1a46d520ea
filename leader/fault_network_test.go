package leader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/internal/faultproxy"
	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/leader"
)

const (
	// lateness is what a machine that runs the whole suite may add to a bound.
	lateness = time.Second
	// slowCheck is the CheckInterval where a bound in intervals has to stand out from the lateness.
	slowCheck = time.Second

	checkQuery  = "SELECT 1\x00"               // as the wire has it
	unlockQuery = "SELECT pg_advisory_unlock(" // not the one within the lock statement
)

// behind puts a proxy before the server and returns it with what sends a pool through it.
func behind(t *testing.T, server *pgserver.Server) (*faultproxy.Proxy, func(*pgxpool.Config)) {
	t.Helper()
	proxy, err := faultproxy.Start(fmt.Sprintf("127.0.0.1:%d", server.Port()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy, func(c *pgxpool.Config) { c.ConnConfig.Host, c.ConnConfig.Port = proxy.Host(), proxy.Port() }
}

// sentCount returns how often clients sent the text, as far as the proxy has recorded it.
func sentCount(proxy *faultproxy.Proxy, text string) int {
	return bytes.Count(proxy.Sent(), []byte(text))
}

// awaitSent waits until clients have sent the text once more.
func awaitSent(t *testing.T, proxy *faultproxy.Proxy, text string) {
	t.Helper()
	before := sentCount(proxy, text)
	pgtest.Eventually(t, patience, fmt.Sprintf("%q is sent", text), func() (bool, string) {
		return sentCount(proxy, text) > before, fmt.Sprint(before, " before")
	})
}

// awaitVerified waits until the leader on that backend has made n checks.
func awaitVerified(t *testing.T, admin *pgx.Conn, pid uint32, n int) {
	t.Helper()
	begins := make(map[time.Time]bool) // of the backend's statements
	pgtest.Eventually(t, patience, fmt.Sprint(n, " checks on backend ", pid), func() (bool, string) {
		var began time.Time
		var answered bool
		err := admin.QueryRow(t.Context(), "SELECT query_start, state = 'idle' FROM pg_stat_activity WHERE pid = $1", int32(pid)).Scan(&began, &answered)
		if err != nil {
			t.Fatalf("backend %d: %v", pid, err)
		}
		if answered {
			begins[began] = true
		}
		return len(begins) > n, fmt.Sprint(len(begins))
	})
}

// R6, R10, L2: a stop in the middle of the leader's check waits for the slow answer and unlocks cleanly; nobody asks the server
// to cancel anything.
func TestFaultStopOnASlowNetworkStillUnlocks(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	admin := db.Connect(t)
	const rounds = 10 // a busy machine may let the answer overtake the stop, or be late itself
	for range rounds {
		if stopDuringASlowCheck(t, db, admin) {
			return
		}
	}
	t.Errorf("none of %d stops came before the answer to the check", rounds)
}

// stopDuringASlowCheck reports whether the check was still unanswered when Run's context ended, and its answer then came in time.
func stopDuringASlowCheck(t *testing.T, db *pgtest.DB, admin *pgx.Conn) bool {
	t.Helper()
	const (
		delay         = slowCheck / 2
		cancelRequest = "\x04\xd2\x16\x2e" // 80877102, the code of its startup packet
	)
	proxy, through := behind(t, db.Server)
	proxy.Record()
	r := newReplica(t, db.Pool(t, through), slowCheck).run(t)
	awaitLeader(t, r)
	cancelled := sentCount(proxy, cancelRequest) // by attempts that the machine was too busy for
	proxy.Delay(delay)
	awaitSent(t, proxy, checkQuery)
	stopped := time.Now()
	r.stop()
	if err := <-r.returned; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	took := time.Since(stopped)
	if pids := holders(t, admin); len(pids) != 0 {
		t.Errorf("backends %v hold the lock after Run has returned", pids)
	}
	r.requireStandby(t)
	if took > 3*delay || len(r.logs.With("background leader lock lost")) > 0 {
		return false
	}
	if got := sentCount(proxy, unlockQuery); got != 1 {
		t.Errorf("%d unlocks were sent, want 1", got)
	}
	if got := sentCount(proxy, cancelRequest) - cancelled; got != 0 {
		t.Errorf("%d cancel requests were dialled, want none", got)
	}
	if got := r.logs.With("INFO background leader lock released"); len(got) != 1 {
		t.Errorf("log: %q", r.logs.With(""))
	}
	return took > delay || t.Failed() // the unlock's own answer takes as long
}

// R6, R7, L6: the answer to the lock statement is held back past the deadline. From the moment the attempt has failed, its
// session holds the lock no more, whatever context watcher the pool uses, and another replica leads.
func TestFaultHeldBackGrantLeavesNoLock(t *testing.T) {
	t.Parallel()
	for name, watcher := range contextWatchers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.Database(t)
			admin := db.Connect(t)
			proxy, through := behind(t, db.Server)
			pool := db.Pool(t, through, watcher)
			if err := pool.Ping(t.Context()); err != nil { // connect while that is quick
				t.Fatal(err)
			}
			proxy.Delay(time.Hour)
			a := newReplica(t, pool, slowCheck).run(t)
			ghost := awaitHolder(t, admin)
			granted := time.Now()
			b := newReplica(t, db.Pool(t), slowCheck).run(t)
			pgtest.Eventually(t, patience, "the attempt fails", func() (bool, string) {
				return len(a.logs.With("no answer within one check interval")) > 0, strings.Join(a.logs.With(""), "\n")
			})
			pgtest.Eventually(t, lateness, "the failed attempt holds nothing", func() (bool, string) {
				pids := holders(t, admin)
				return !slices.Contains(pids, ghost), fmt.Sprint(pids)
			})
			awaitLeader(t, b)
			if took := time.Since(granted); took > 5*slowCheck+lateness {
				t.Errorf("the second replica led after %v, want at most 5 intervals", took)
			}
			pid := awaitHolder(t, admin)
			if got := b.logs.With(fmt.Sprintf("acquired pid=%d ", pid)); len(got) != 1 {
				t.Errorf("backend %d holds the lock; log of the leader: %q", pid, b.logs.With(""))
			}
			pgtest.Eventually(t, patience, "the first replica goes on trying", func() (bool, string) {
				if pids := holders(t, admin); !slices.Equal(pids, []uint32{pid}) {
					t.Errorf("backends %v hold the lock, want the leader's %d", pids, pid)
				}
				return len(a.logs.With("WARN leader: acquire lock connection: ")) >= 3, strings.Join(a.logs.With(""), "\n")
			})
			a.requireStandby(t)
		})
	}
}

// R8, R20: a network that resets every connection of the leader ends its term at once, not at its next check, and frees the
// lock; one replica leads within an interval.
func TestFaultResetConnectionsEndTheTermAtOnce(t *testing.T) {
	t.Parallel()
	const checkInterval = 4 * slowCheck
	db := pgtest.Database(t)
	admin := db.Connect(t)
	proxy, through := behind(t, db.Server)
	a := newReplica(t, db.Pool(t, through), checkInterval).run(t)
	awaitLeader(t, a)
	pid := awaitHolder(t, admin)
	b := newReplica(t, db.Pool(t), checkInterval).run(t)
	term, cancel, _ := a.Term(context.Background())
	defer cancel()
	awaitVerified(t, admin, pid, 1)                  // the next check is a whole interval away
	if err := a.pool.Ping(t.Context()); err != nil { // some round trips, during which the answer arrives
		t.Fatal(err)
	}
	severed := time.Now()
	proxy.Sever()
	select {
	case <-term.Done():
	case <-time.After(patience):
		t.Fatal("the term goes on")
	}
	if took := time.Since(severed); took > checkInterval/2 {
		t.Errorf("the term ended %v after the reset, want at once", took)
	}
	if cause := context.Cause(term); !errors.Is(cause, leader.ErrLeadershipLost) {
		t.Errorf("cause = %v, want ErrLeadershipLost", cause)
	}
	pgtest.Eventually(t, checkInterval/2, "the backend is gone, and its lock with it", func() (bool, string) {
		return !isBackend(t, admin, pid), fmt.Sprint(pid)
	})
	pgtest.Eventually(t, patience, "exactly one leads", func() (bool, string) {
		return a.IsLeader() != b.IsLeader(), fmt.Sprint(a.IsLeader(), b.IsLeader())
	})
	if took := time.Since(severed); took > checkInterval+lateness {
		t.Errorf("the next leader came after %v, want at most one interval", took)
	}
	if got := awaitHolder(t, admin); got == pid {
		t.Errorf("the lock is still with backend %d", pid)
	}
	if lost := a.logs.With(fmt.Sprintf("WARN background leader lock lost pid=%d error=", pid)); len(lost) != 1 {
		t.Errorf("log: %q, want one loss", a.logs.With(""))
	}
}
