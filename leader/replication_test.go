package leader_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/leader"
)

// R17: advisory locks are not replicated, so a streaming standby would grant its own beside the primary's. A replica there
// never leads while the standby is one, leader or none; after a failover it may lead, and does.
func TestPostgresStreamingStandbyElectsNobodyUntilFailover(t *testing.T) {
	t.Parallel()
	primary := pgtest.Cluster(t, pgserver.Options{})
	standby := pgtest.Standby(t, primary, pgserver.Options{})
	onPrimary := newReplica(t, (&pgtest.DB{DSN: primary.DSN("postgres")}).Pool(t), quick).run(t)
	onStandby := newReplica(t, (&pgtest.DB{DSN: standby.DSN("postgres")}).Pool(t), quick).run(t)
	awaitLeader(t, onPrimary)
	awaitRefusals(t, onStandby, 3)
	onPrimary.requireLeader(t)

	term, cancel, _ := onPrimary.Term(context.Background())
	defer cancel()
	if err := primary.Stop(pgserver.Immediate); err != nil {
		t.Fatal(err)
	}
	<-term.Done()
	if cause := context.Cause(term); !errors.Is(cause, leader.ErrLeadershipLost) {
		t.Errorf("cause = %v, want ErrLeadershipLost", cause)
	}
	awaitRefusals(t, onStandby, 3)

	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitLeader(t, onStandby)
	onStandby.requireLeader(t)
	onPrimary.requireStandby(t)
}

// awaitRefusals waits until the replica was turned away by a server in recovery as often again, and has never led.
func awaitRefusals(t *testing.T, r *replica, more int) {
	t.Helper()
	const warning = "WARN leader: acquire lock connection: the server is in recovery"
	before := len(r.logs.With(warning))
	pgtest.Eventually(t, patience, "warnings of a server in recovery", func() (bool, string) {
		if terms := r.logs.With("acquired"); len(terms) != 0 {
			t.Fatalf("a replica on a standby has led: %q", terms)
		}
		return len(r.logs.With(warning)) >= before+more, strings.Join(r.logs.With(""), "\n")
	})
	r.requireStandby(t)
}
