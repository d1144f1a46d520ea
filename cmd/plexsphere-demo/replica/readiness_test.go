package replica_test

import (
	"net/http"
	"testing"

	"github.com/plexsphere/leader-exporter/cmd/plexsphere-demo/replica"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// T8: the table of readiness on a real replica: booted, leader, leader with a failing tick, standby, demoted.
func TestReadinessFollowsTheTable(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	admin := db.Connect(t)
	must := func(statement string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(r *running, moment string, want int) {
		t.Helper()
		r.await(t, moment, func() bool {
			status, answer := r.readiness(t)
			return status == want && answer.Probes["invitations-expire"].OK == (want == http.StatusOK)
		})
	}
	leader := start(t, db.DSN)
	leader.awaitLeader(t)
	expect(leader, "leader, last tick succeeded", http.StatusOK)

	const broken = `ERROR: column "state" does not exist (SQLSTATE 42703)`
	must("ALTER TABLE invitations RENAME COLUMN state TO was_state")
	expect(leader, "leader, last tick failed", http.StatusServiceUnavailable)
	_, answer := leader.readiness(t)
	if got, want := answer.Probes["invitations-expire"].Error, "work: invitations-expire: "+broken; got != want {
		t.Errorf("probe %q, want %q", got, want)
	}
	if !answer.Probes["approvals-expire"].OK || !answer.Probes["workers"].OK {
		t.Errorf("other probes fail too: %v", answer.Probes)
	}
	must("ALTER TABLE invitations RENAME COLUMN was_state TO state")
	expect(leader, "leader, a later tick succeeded", http.StatusOK)

	must("ALTER TABLE invitations RENAME COLUMN state TO was_state")
	standby := start(t, db.DSN, func(o *replica.Options) { o.Name, o.LoopInterval = "standby", 2*checkInterval })
	expect(standby, "booted, no tick yet: the boot pass failed", http.StatusServiceUnavailable)
	expect(standby, "standby: its first tick clears the boot pass", http.StatusOK)

	expect(leader, "leader, last tick failed again", http.StatusServiceUnavailable)
	must("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1886156915 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")
	leader.await(t, "demoted, or leader again", func() bool {
		if status, _ := leader.readiness(t); status == http.StatusOK {
			return leader.value(t, "plexsphere_background_leader") == 0
		}
		// it was faster than the other replica: once more
		must("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1886156915 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")
		return false
	})
}
