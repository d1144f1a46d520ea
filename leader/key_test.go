package leader_test

import (
	"math"
	"testing"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/lockkey"
)

// R19: every key of both key spaces elects a leader of its own, beside the others on one database, and pg_locks shows it
// under the key's columns.
func TestPostgresEveryKeyElectsItsOwnLeader(t *testing.T) {
	t.Parallel()
	const unhurried = 2 * quick // a machine that stands still for a moment is no fault of a key
	db := pgtest.Database(t)
	admin := db.Connect(t)
	for _, k := range []lockkey.Key{
		{}, // the background leader's
		lockkey.Pair(1, 1886156915),
		lockkey.Pair(0, 0),
		lockkey.Pair(math.MinInt32, math.MaxInt32),
		lockkey.Pair(-1, math.MinInt32),
		lockkey.Bigint(1886156915<<32 | 1),
		lockkey.Bigint(0),
		lockkey.Bigint(42),
		lockkey.Bigint(-7),
		lockkey.Bigint(math.MinInt64),
		lockkey.Bigint(math.MaxInt64),
	} {
		a := newReplica(t, db.Pool(t), unhurried, func(c *leader.Config) { c.Key = k }).run(t)
		awaitLeader(t, a)
		if k.IsZero() {
			k = lockkey.BackgroundLeader()
		}
		classid, objid, objsubid := k.Columns()
		var rows int
		if err := admin.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND classid = $1 AND objid = $2 AND objsubid = $3`, classid, objid, int16(objsubid)).Scan(&rows); err != nil || rows != 1 {
			t.Errorf("key %v: %d rows of pg_locks, %v; want 1", k, rows, err)
		}
		b := newReplica(t, db.Pool(t), unhurried, func(c *leader.Config) { c.Key = k })
		b.run(t)
		pgtest.Eventually(t, patience, "a refusal of the second", func() (bool, string) {
			return b.pool.Stat().AcquireCount() >= 2, ""
		})
		b.requireStandby(t)
		if lines := b.logs.With("WARN"); len(lines) != 0 {
			t.Errorf("key %v: %q", k, lines)
		}
		b.stop()
		<-b.returned
		if k == lockkey.Bigint(-7) || k == lockkey.Pair(math.MinInt32, math.MaxInt32) {
			a.stop()
			<-a.returned
			if lines := a.logs.With("lock released"); len(lines) != 1 {
				t.Errorf("key %v: log %q", k, a.logs.With(""))
			}
		}
	}
}
