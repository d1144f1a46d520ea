// Package work is the background work of the reference replica, as SQL with books that prove it.
package work

import (
	"cmp"
	"context"
	_ "embed" // of the schema
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed schema.sql
var schema string

// migrationLock keeps replicas that boot at the same time from creating the schema at the same time. A bigint key never meets
// the election's, which is a pair.
const migrationLock = 1886156915

// Create makes the tables that are not there yet.
func Create(ctx context.Context, pool *pgxpool.Pool) error {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, schema)
		return err
	})
	if err != nil {
		return fmt.Errorf("work: create the schema: %w", err)
	}
	return nil
}

// Origin says where in the spec's scheme a pass ran, and so who may have run it.
type Origin string

// The origins. Boot and Replica may be of every replica; the others of the leader alone.
const (
	Boot    Origin = "boot"    // before the replica was ready
	Tick    Origin = "tick"    // of a ticked loop
	Term    Origin = "term"    // of a loop that paces itself
	Gated   Origin = "gated"   // the gated step of a loop of every replica
	Replica Origin = "replica" // of a loop of every replica
)

// Step is one pass over the rows of a loop that are due.
type Step struct {
	Loop string
	Pass string // names it in the books where the loop has another step
	// handle is a data-modifying statement that returns the id of each row it handled. It changes only rows that are still
	// due, and so stays right when two replicas run it at once.
	handle string
	// seed inserts a row that falls due after $1, an interval, or at once, and returns its id.
	seed   string
	atOnce bool
}

// pass is the name of the step's passes in the books.
func (s Step) pass() string { return cmp.Or(s.Pass, s.Loop) }

// Run handles what is due, enters the pass into the books, and returns how many rows it handled. fence is 0 where there is none.
func (s Step) Run(ctx context.Context, pool *pgxpool.Pool, origin Origin, fence uint64) (rows int64, err error) {
	tag, err := pool.Exec(ctx, `WITH done AS (`+s.handle+`),
			pass AS (INSERT INTO passes (pass, origin, fence) SELECT $4::text, $2::text, nullif($3::bigint, 0) FROM (SELECT count(*) FROM done) AS all_done)
		INSERT INTO handled (loop, id, origin, fence) SELECT $1::text, id, $2::text, nullif($3::bigint, 0) FROM done`,
		s.Loop, string(origin), int64(fence), s.pass())
	if err != nil {
		return 0, fmt.Errorf("work: %s: %w", s.Loop, err)
	}
	return tag.RowsAffected(), nil
}
