package leader_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/leader"
)

// crowd starts a leader and then n standbys, with a pool of one connection each. Their pools ping before each
// check, as they do at the default interval.
func crowd(t *testing.T, server *pgserver.Server, n int, every time.Duration) []*replica {
	t.Helper()
	db := &pgtest.DB{DSN: server.DSN("postgres")}
	replicas := make([]*replica, n+1)
	for i := range replicas {
		replicas[i] = newReplica(t, db.Pool(t, alwaysPing, func(c *pgxpool.Config) {
			c.MaxConns = 1
			c.ConnConfig.RuntimeParams["application_name"] = "crowd"
		}), every).run(t)
		pgtest.Eventually(t, patience, "the replica has made its first check", func() (bool, string) {
			return replicas[i].IsLeader() || replicas[i].pool.Stat().AcquireCount() > 0 && replicas[0].IsLeader(),
				strings.Join(replicas[i].logs.With(""), "\n")
		})
	}
	return replicas
}

// opened returns how many connections the replicas have made.
func opened(replicas []*replica) (n int64) {
	for _, r := range replicas {
		n += r.pool.Stat().NewConnsCount()
	}
	return n
}

// waiters counts the sessions of the crowd that wait for a short lock inside the server, and names those that wait for another.
func waiters(t *testing.T, admin *pgx.Conn) (light int, heavy []string) {
	t.Helper()
	rows, err := admin.Query(t.Context(), `SELECT concat_ws(' ', wait_event_type, wait_event, 'of backend', pid) FROM pg_stat_activity
		WHERE application_name = 'crowd' AND wait_event_type IN ('Lock', 'LWLock')
		UNION ALL SELECT concat_ws(' ', locktype, mode, 'not granted to backend', pid) FROM pg_locks WHERE NOT granted`)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if strings.HasPrefix(f, "LWLock ") {
			light++
		} else {
			heavy = append(heavy, f)
		}
	}
	return light, heavy
}

// processTimes returns how long each process of the server has run, but for the backend of the one who looks.
func processTimes(t *testing.T, admin *pgx.Conn) map[string]time.Duration {
	t.Helper()
	var postmaster string
	if err := admin.QueryRow(t.Context(), `SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)`).Scan(&postmaster); err != nil {
		t.Fatal(err)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]s/task/%[1]s/children", postmaster))
	if err != nil {
		t.Fatal(err)
	}
	times := make(map[string]time.Duration)
	for _, pid := range append(strings.Fields(string(children)), postmaster) {
		if pid == strconv.Itoa(int(admin.PgConn().PID())) {
			continue
		}
		// Not utime and stime of /proc/PID/stat: they count whole hundredths of a second, of which a backend uses less in all.
		stat, err := os.ReadFile("/proc/" + pid + "/schedstat")
		if err != nil {
			t.Fatal(err)
		}
		running, _, _ := strings.Cut(string(stat), " ")
		if times[pid], err = time.ParseDuration(running + "ns"); err != nil {
			t.Fatal(err)
		}
	}
	return times
}

// spent returns the time that the server's processes ran in between, but for those that ended meanwhile.
func spent(before, after map[string]time.Duration) (sum time.Duration) {
	for pid, at := range after {
		sum += at - before[pid]
	}
	return sum
}

// crowdLook is what was seen of a crowd over some intervals.
type crowdLook struct {
	looks, light int      // light: sightings of a session that waits for one of the server's own short locks
	heavy        []string // sessions that wait for a lock
	leaders      []int    // their number, at each look
	opened       int64    // new connections
	wall, busy   time.Duration
}

// watchCrowd looks fifty times an interval.
func watchCrowd(t *testing.T, admin *pgx.Conn, replicas []*replica, every time.Duration, intervals int) (seen crowdLook) {
	t.Helper()
	ticker := time.NewTicker(every / 50)
	defer ticker.Stop()
	connections, before, begin := opened(replicas), processTimes(t, admin), time.Now()
	for ; time.Since(begin) < time.Duration(intervals)*every; <-ticker.C {
		light, heavy := waiters(t, admin)
		seen.looks++
		seen.light += light
		seen.heavy = append(seen.heavy, heavy...)
		seen.leaders = append(seen.leaders, len(leaders(replicas)))
	}
	seen.wall, seen.busy = time.Since(begin), spent(before, processTimes(t, admin))
	seen.opened = opened(replicas) - connections
	return seen
}

// R2, R8: on one server no session of two hundred standbys and a leader ever waits for a lock, hardly one for the server's
// own short ones, and one replica leads all the time.
func TestCostOfTwoHundredStandbysIsNoWait(t *testing.T) {
	const standbys, every, intervals = 200, time.Second, 5
	server := pgtest.Cluster(t, pgserver.Options{Settings: map[string]string{"autovacuum": "off", "max_connections": "300"}})
	admin := (&pgtest.DB{DSN: server.DSN("postgres")}).Connect(t)
	replicas := crowd(t, server, standbys, every)
	before, lost := lines(replicas, "WARN"), lines(replicas, "lock lost")
	seen := watchCrowd(t, admin, replicas, every, intervals)
	unanswered := lines(replicas, "WARN") - before
	if len(seen.heavy) > 0 {
		t.Errorf("sessions that wait: %q", seen.heavy)
	}
	// Where the machine stands still for an interval, an unanswered check costs a connection (R7) or the term (R8).
	if seen.opened > int64(unanswered) {
		t.Errorf("%d new connections after %d unanswered checks", seen.opened, unanswered)
	}
	if lines(replicas, "lock lost") == lost && (slices.Min(seen.leaders) != 1 || slices.Max(seen.leaders) != 1) {
		t.Errorf("numbers of leaders: %v, want 1", seen.leaders)
	}
	light := 100 * float64(seen.light) / float64(seen.looks*len(replicas))
	if light > 1 {
		t.Errorf("%.2f %% of all sessions wait for a short lock of the server", light)
	}
	share := 100 * seen.busy.Seconds() / seen.wall.Seconds()
	fmt.Printf("cost: %d standbys and a leader: %.2f %% of one core with an interval of %v, so %.2f %% with %v, the pool's pings "+
		"included; %d looks at all sessions: none waits for a lock, %.3f %% for a short one of the server; %d checks unanswered\n",
		standbys, share, every, share*every.Seconds()/leader.DefaultCheckInterval.Seconds(), leader.DefaultCheckInterval,
		seen.looks, light, unanswered)
}

// lines returns how many lines with that text the replicas have logged.
func lines(replicas []*replica, text string) (n int) {
	for _, r := range replicas {
		n += len(r.logs.With(text))
	}
	return n
}

func alwaysPing(c *pgxpool.Config) {
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
}
