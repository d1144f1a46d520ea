package leader_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/leader/leadertest"
	"github.com/plexsphere/leader-exporter/lockkey"
)

// contextWatchers are the two ways in which a pool may react to a timeout: pgx's own closes the connection, the other asks
// the server to cancel and keeps it.
func contextWatchers() map[string]func(*pgxpool.Config) {
	return map[string]func(*pgxpool.Config){
		"deadline": func(*pgxpool.Config) {},
		"cancel request": func(c *pgxpool.Config) {
			c.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
				return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Minute}
			}
		},
	}
}

// since returns how long after begin the fact holds, looking every millisecond of the bubble's clock.
func since(begin time.Time, fact func() bool) time.Duration {
	const limit = time.Hour
	for !fact() && time.Since(begin) < limit {
		time.Sleep(time.Millisecond)
	}
	return time.Since(begin)
}

// terminateHolder ends the session that holds the lock.
func terminateHolder(t *testing.T, server *leadertest.Server) {
	t.Helper()
	_, pid, held := server.Holder(lockkey.BackgroundLeader())
	if !held || !server.Terminate(pid) {
		t.Fatalf("no session to terminate: lock held %v by %d", held, pid)
	}
}

func key() lockkey.Key { return lockkey.BackgroundLeader() }

func decimal(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
