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
	account, err := work.Close(t.Context(), pool)
	if err != nil || account.Err() != nil {
		t.Fatal(err, account.Err())
	}
	if want := seeds * (16 + 5); account.Due != want || account.Handled["reachability-evaluator"] != 2*seeds {
		t.Errorf("%d rows due, %v; want %d", account.Due, account.Handled, want)
	}
	outstanding, err := work.Outstanding(t.Context(), pool)
	if want := 16 + 5 - 1; err != nil || outstanding != want { // a recovered node is due at once
		t.Errorf("%d rows outstanding, %v; want the %d that fall due in an hour", outstanding, err, want)
	}
}

// The books show a row that was lost, one that was handled twice, and a loop that did nothing.
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
	} {
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	account, err := work.Close(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	const want = "of 21 rows that fell due, 1 were never handled (audit-archiver 1), 1 more than once (sse-relay 1 by replica replica 7, "
	if err := account.Err(); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "loops that handled none: audit-archiver") {
		t.Errorf("Err = %v, want %s...", err, want)
	}
}

// A row that the leader's loops handled while another replica held the lock is a trespass; rows of boot passes and of the loops
// of every replica are none.
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
		t.Errorf("%d rows checked, trespasses %q; want 19 and none", checked, found)
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
	if len(found) != 19 || !slices.ContainsFunc(found, func(row string) bool { return strings.HasPrefix(row, "invitations-expire 2 by replica at ") }) {
		t.Errorf("trespasses %q, want each of the leader's loops", found)
	}
}
