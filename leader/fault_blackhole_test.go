package leader_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// R5, R6, L20: a standby in a black hole, whose pool pings a connection that was idle for over 1 s and waits for ever, warns
// once an interval, and its checks reach the server again within two intervals of the healing. So does one whose pool has
// one place, which an abandoned ping occupies.
func TestFaultStandbyAsksAgainSoonAfterABlackHole(t *testing.T) {
	t.Parallel()
	const checkInterval = 2 * time.Second // more than the one after which pgxpool pings, and the time that a check takes
	for _, places := range []int32{1, 4} {
		t.Run(fmt.Sprint(places), func(t *testing.T) {
			t.Parallel()
			db := pgtest.Database(t)
			admin := db.Connect(t)
			a := newReplica(t, db.Pool(t), checkInterval).run(t)
			awaitLeader(t, a)
			proxy, through := behind(t, db.Server)
			proxy.Record()
			b := newReplica(t, db.Pool(t, through, func(c *pgxpool.Config) {
				c.MaxConns = places
				c.ConnConfig.RuntimeParams["application_name"] = "standby"
			}), checkInterval).run(t)
			awaitChecks(t, b, 2)
			pgtest.Eventually(t, patience, "the connection is back in the pool", func() (bool, string) {
				return b.pool.Stat().AcquiredConns() == 0 && b.pool.Stat().IdleConns() == 1, strings.Join(b.logs.With(""), "\n")
			})
			pings := sentCount(proxy, "-- ping")
			proxy.Cut()
			const cut = 5 // intervals, each of which has its warning when the next begins
			pgtest.Eventually(t, (1+cut)*checkInterval+lateness, "a warning for each interval", func() (bool, string) {
				warnings := b.logs.With("WARN leader: acquire lock connection: no answer within one check interval")
				return len(warnings) >= cut, strings.Join(b.logs.With(""), "\n")
			})
			if sentCount(proxy, "-- ping") == pings {
				t.Error("the pool has pinged nothing")
			}
			var healed time.Time
			if err := admin.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&healed); err != nil {
				t.Fatal(err)
			}
			proxy.Heal()
			pgtest.Eventually(t, 2*checkInterval+lateness, "a check reaches the server", func() (bool, string) {
				var asked int
				err := admin.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'standby'
					AND query LIKE '%pg_try_advisory_lock%' AND query_start > $1`, healed).Scan(&asked)
				return asked > 0, fmt.Sprint(err, "\n", strings.Join(b.logs.With(""), "\n"))
			})
			a.stop()
			<-a.returned
			awaitLeader(t, b)
		})
	}
}
