package work_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/cmd/plexsphere-demo/work"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

const patience = 30 * time.Second

func TestMain(m *testing.M) { pgtest.Main(m) }

// books returns a database with the schema.
func books(t *testing.T) (*pgtest.DB, *pgxpool.Pool) {
	t.Helper()
	db := pgtest.Database(t)
	pool := db.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "replica" })
	if err := work.Create(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	return db, pool
}

// steps returns all steps with the origin that suits each.
func steps() map[work.Origin][]work.Step {
	return map[work.Origin][]work.Step{
		work.Tick:    work.Ticked(),
		work.Term:    {work.Archive(), work.Mirror()},
		work.Replica: {work.Consume(), work.Relay()},
		work.Gated:   {work.RemoveDurables()},
	}
}

func runAll(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for origin, steps := range steps() {
		for _, s := range steps {
			if _, err := s.Run(t.Context(), pool, origin, 7); err != nil {
				t.Error(err)
			}
		}
	}
}

// Replicas that boot at the same moment all find the schema there.
func TestCreateByManyAtOnce(t *testing.T) {
	pool := pgtest.Database(t).Pool(t)
	var booting sync.WaitGroup
	for range 5 {
		booting.Go(func() {
			if err := work.Create(t.Context(), pool); err != nil {
				t.Error(err)
			}
		})
	}
	booting.Wait()
}

// A step handles what is due, nothing else, and each row once, also when many run it at the same moment.
func TestStepsHandleEachDueRowOnce(t *testing.T) {
	_, pool := books(t)
	const seeds = 20
	for range seeds {
		if err := work.Seed(t.Context(), pool, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := work.Seed(t.Context(), pool, time.Hour); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() { runAll(t, pool) })
	}
	running.Wait()
	runAll(t, pool)
	runAll(t, pool) // deliveries come in batches of 10
	account, err := work.Close(t.Context(), pool, patience)
	if err != nil || account.Err() != nil {
		t.Fatal(err, account.Err())
	}
	if want := seeds * (16 + 5); account.Due != want+1 || account.Handled["reachability-evaluator"] != 2*seeds+1 { // a recovered node is due at once
		t.Errorf("%d rows due, %v; want %d", account.Due, account.Handled, want)
	}
	outstanding, err := work.Outstanding(t.Context(), pool)
	if want := 16 + 5 - 1; err != nil || outstanding != want { // a recovered node is due at once
		t.Errorf("%d rows outstanding, %v; want the %d that fall due in an hour", outstanding, err, want)
	}
}

// The books show a row that was lost, one that was handled twice, early, late, and out of the blue, and a loop that did nothing.
func TestBooksShowWhatWentWrong(t *testing.T) {
	db, pool := books(t)
	if err := work.Seed(t.Context(), pool, 0); err != nil {
		t.Fatal(err)
	}
	runAll(t, pool)
	admin := db.Connect(t)
	for _, statement := range []string{
		"INSERT INTO handled (loop, id, origin) SELECT loop, id, 'boot' FROM handled WHERE loop = 'sse-relay'",
		"DELETE FROM handled WHERE loop = 'audit-archiver'",
		"UPDATE handled SET handled_at = handled_at - interval '1 hour' WHERE loop = 'sse-nonce-sweep'",
		"UPDATE handled SET handled_at = handled_at + interval '1 hour' WHERE loop = 'actions-timeout'",
		"INSERT INTO handled (loop, id, origin) VALUES ('approvals-expire', 99, 'tick')",
	} {
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	account, err := work.Close(t.Context(), pool, patience)
	if err != nil {
		t.Fatal(err)
	}
	const want = `1 of 22 rows were never handled: audit-archiver 1
1 of 22 rows were handled more than once: sse-relay 1 by replica replica 7,  boot
1 of 22 rows were handled before they were due: sse-nonce-sweep 1 by replica tick 7
1 of 22 rows were handled more than 30s after they were due: actions-timeout 1 by replica tick 7
1 of 22 rows were handled and in no list of what falls due: approvals-expire 99 by  tick
the loop audit-archiver has handled no row`
	if err := account.Err(); err == nil || err.Error() != want {
		t.Errorf("Err = %v\nwant %s", err, want)
	}
}

// A capacity that swings has to leave a crossing behind.
func TestSwingsLeaveCrossings(t *testing.T) {
	_, pool := books(t)
	for range 2 {
		if err := work.SwingCapacity(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
	}
	account := func() string {
		a, err := work.Close(t.Context(), pool, patience)
		if err != nil {
			t.Fatal(err)
		}
		return a.Err().Error()
	}
	const none = "the capacity swung 2 times, and no crossing was written"
	if err := account(); !strings.Contains(err, none) {
		t.Errorf("Err = %s, want %s in it", err, none)
	}
	if err := work.Cross(t.Context(), pool, 90, 7); err != nil {
		t.Fatal(err)
	}
	if err := account(); strings.Contains(err, "crossing") {
		t.Errorf("Err = %s with a crossing", err)
	}
}

// A loop that runs beside itself, or more often than it should, is seen; one that keeps to its cadence, and one that paces
// itself, is not.
func TestHurriedPassesAreSeen(t *testing.T) {
	db, pool := books(t)
	admin := db.Connect(t)
	for _, statement := range []string{
		// 30 passes in three seconds, as often as ten a second allow for; twice as many; a term of its own for each; and a loop that paces itself.
		"INSERT INTO passes SELECT 'steady', 'a', 'tick', 7, t, t FROM generate_series(now(), now() + interval '3 s', interval '100 ms') AS t",
		"INSERT INTO passes SELECT 'double', 'a', 'tick', 7, t, t FROM generate_series(now(), now() + interval '3 s', interval '50 ms') AS t",
		"INSERT INTO passes SELECT 'double', 'b', 'replica', NULL, t, t FROM generate_series(now(), now() + interval '3 s', interval '50 ms') AS t",
		"INSERT INTO passes SELECT 'paced', 'a', 'term', 7, t, t FROM generate_series(now(), now() + interval '3 s', interval '10 ms') AS t",
		"INSERT INTO passes VALUES ('beside', 'a', 'tick', 7, now(), now() + interval '2 s'), ('beside', 'a', 'tick', 7, now() + interval '1 s', now() + interval '2 s')",
		"INSERT INTO passes VALUES ('beside', 'b', 'tick', 8, now() + interval '1 s', now() + interval '2 s')",
	} {
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	found, err := work.Hurried(t.Context(), pool, 100*time.Millisecond)
	slices.Sort(found)
	if err != nil || len(found) != 3 || found[0] != "61 passes of double by a with fence 7 in 00:00:03" ||
		found[1] != "61 passes of double by b with fence  in 00:00:03" || !strings.HasPrefix(found[2], "beside by a began at ") {
		t.Errorf("Hurried = %q, %v; want the two that double, and the one beside itself", found, err)
	}
}

// A pass of the leader's loops while another replica held the lock, or without a fence, is a trespass; boot passes and those of
// the loops of every replica are none.
func TestTrespassesAreSeen(t *testing.T) {
	db, pool := books(t)
	var leaders work.Leaders
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		if err := leaders.Watch(ctx, db.DSN); err != nil {
			t.Error(err)
		}
	})
	defer watching.Wait()
	defer stop()
	terms := 0
	lead := func(name string) (end func()) {
		conn := db.Connect(t)
		if _, err := conn.Exec(t.Context(), "SELECT set_config('application_name', '"+name+"', false), pg_advisory_lock(1886156915, 1)"); err != nil {
			t.Fatal(err)
		}
		terms++
		pgtest.Eventually(t, patience, "the lock is seen", func() (bool, string) { return leaders.Terms() == terms, "" })
		return func() {
			if err := conn.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	trespasses := func() (int, []string) {
		if _, err := pool.Exec(t.Context(), "SELECT pg_sleep(0.2)"); err != nil { // the last look is after the last row
			t.Fatal(err)
		}
		checked, found, err := leaders.Trespasses(t.Context(), pool, 50*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		return checked, found
	}
	end := lead("replica")
	if err := work.Seed(t.Context(), pool, 0); err != nil {
		t.Fatal(err)
	}
	runAll(t, pool)
	if checked, found := trespasses(); checked != 19 || len(found) != 0 {
		t.Errorf("%d passes checked, trespasses %q; want 19 and none", checked, found)
	}
	if err := work.Cross(t.Context(), pool, 90, 0); err != nil {
		t.Fatal(err)
	}
	if checked, found := trespasses(); checked != 20 || len(found) != 1 || !strings.HasPrefix(found[0], "capacity-collector by replica with fence 0 at ") {
		t.Errorf("%d passes checked, trespasses %q; want 20, and the one without a fence", checked, found)
	}
	end()
	defer lead("another")()
	if _, err := pool.Exec(t.Context(), "SELECT pg_sleep(1)"); err != nil {
		t.Fatal(err)
	}
	if err := work.Seed(t.Context(), pool, 0); err != nil {
		t.Fatal(err)
	}
	runAll(t, pool)
	_, found := trespasses()
	if len(found) != 20 || !slices.ContainsFunc(found, func(pass string) bool {
		return strings.HasPrefix(pass, "invitations-expire by replica with fence 7 at ")
	}) {
		t.Errorf("trespasses %q, want each of the leader's loops", found)
	}
}
