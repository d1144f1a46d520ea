package leader_test

import (
	"encoding/binary"
	"fmt"
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

// metered is a replica all of whose messages to the server are on record.
type metered struct {
	*replica
	proxy *faultproxy.Proxy
}

// newMetered makes a replica with a proxy of its own and a pool of one connection.
func newMetered(t *testing.T, server *pgserver.Server, every time.Duration, shape func(*pgxpool.Config), configure ...func(*leader.Config)) *metered {
	t.Helper()
	proxy, through := behind(t, server)
	proxy.Record()
	pool := (&pgtest.DB{DSN: server.DSN("postgres")}).Pool(t, shape, through, func(c *pgxpool.Config) { c.MaxConns = 1 })
	return &metered{replica: newReplica(t, pool, every, configure...), proxy: proxy}
}

// said returns the statements that were sent so far, each of which is one round trip, and the number of connections. It fails
// when another protocol than that of simple queries was spoken.
func (m *metered) said(t *testing.T) (statements []string, connections int) {
	t.Helper()
	for sent := m.proxy.Sent(); len(sent) >= 5; {
		kind, length := sent[0], 1+int(binary.BigEndian.Uint32(sent[1:]))
		if kind == 0 { // the first message of a connection has no kind, and is short enough for its length to begin with 0
			kind, length = 'S', int(binary.BigEndian.Uint32(sent))
		}
		if len(sent) < length {
			break
		}
		switch kind {
		case 'S':
			connections++
		case 'Q':
			statements = append(statements, string(sent[5:length-1]))
		case 'X':
		default:
			t.Fatalf("the replica sent a message of kind %q", kind)
		}
		sent = sent[length:]
	}
	return statements, connections
}

// awaitSaid waits until that many statements were sent, and returns them.
func (m *metered) awaitSaid(t *testing.T, n int) (statements []string) {
	t.Helper()
	pgtest.Eventually(t, patience, fmt.Sprint(n, " statements"), func() (bool, string) {
		statements, _ = m.said(t)
		return len(statements) >= n, fmt.Sprintf("%d; log:\n%s", len(statements), strings.Join(m.logs.With(""), "\n"))
	})
	return statements
}

// session describes the session in the replica's pool: what it has set, holds, prepared and listens to.
func (m *metered) session(t *testing.T) (state string) {
	t.Helper()
	err := m.pool.QueryRow(t.Context(), `SELECT concat_ws('; ', pg_backend_pid(),
		(SELECT string_agg(name || '=' || setting, ', ' ORDER BY name) FROM pg_settings WHERE source = 'session'),
		(SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'),
		(SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_listening_channels()))`,
		pgx.QueryExecModeSimpleProtocol).Scan(&state)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// undisturbed measures until it has done so while no check went unanswered, and then judges. Where a machine stands still for
// an interval, which a log line tells, a check costs a connection (R7) or the term (R8).
func undisturbed(t *testing.T, replicas []*replica, measure func() (judge func())) {
	t.Helper()
	for begin := time.Now(); ; {
		before := lines(replicas, "WARN")
		judge := measure()
		switch {
		case lines(replicas, "WARN") == before:
			judge()
			return
		case time.Since(begin) > 4*patience:
			t.Fatalf("within %v the machine was never quick enough to answer all checks", 4*patience)
		}
	}
}

// books is what a server shows of the work that was done on it.
type books struct {
	WAL     int64 // bytes, ever
	NextXID int64
}

func readBooks(t *testing.T, admin *pgx.Conn) books {
	t.Helper()
	rows, err := admin.Query(t.Context(), `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,
		pg_snapshot_xmax(pg_current_snapshot())::text::bigint`)
	if err != nil {
		t.Fatal(err)
	}
	b, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[books])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// quietCluster starts a server that writes nothing of its own accord.
func quietCluster(t *testing.T) (*pgserver.Server, *pgx.Conn) {
	t.Helper()
	server := pgtest.Cluster(t, pgserver.Options{Settings: map[string]string{
		"autovacuum": "off", "checkpoint_timeout": "1d", "wal_level": "minimal", "max_wal_senders": "0",
	}})
	return server, (&pgtest.DB{DSN: server.DSN("postgres")}).Connect(t)
}
