package work

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// capacityPass is the name of a crossing in the books.
const capacityPass = "capacity-collector"

// SwingCapacity lets the capacity cross the thresholds of the collectors, up and down in turn.
func SwingCapacity(ctx context.Context, pool *pgxpool.Pool) error {
	const swing = "UPDATE capacity SET swings = swings + 1, used_percent = CASE WHEN used_percent < 70 THEN 90 ELSE 50 END"
	if _, err := pool.Exec(ctx, swing); err != nil {
		return fmt.Errorf("work: swing the capacity: %w", err)
	}
	return nil
}

// Cross writes the audit row of a crossing, which is the leader's to write. fence is 0 where there is none.
func Cross(ctx context.Context, pool *pgxpool.Pool, used int, fence uint64) error {
	_, err := pool.Exec(ctx, `WITH pass AS (INSERT INTO passes (pass, origin, fence) VALUES ($2::text, $3::text, nullif($4::bigint, 0)))
		INSERT INTO capacity_crossings (used_percent) VALUES ($1)`, used, capacityPass, string(Gated), int64(fence))
	if err != nil {
		return fmt.Errorf("work: write a crossing: %w", err)
	}
	return nil
}

// crossings requires an audit row, once the capacity has swung up and down. There may be fewer than swings, where a replica begins
// to lead whose collector has seen one already, and more, since each process begins below the thresholds.
func crossings(ctx context.Context, pool *pgxpool.Pool) (problem string, err error) {
	var swings, rows int
	err = pool.QueryRow(ctx, "SELECT swings, (SELECT count(*) FROM capacity_crossings) FROM capacity").Scan(&swings, &rows)
	switch {
	case err != nil:
		return "", fmt.Errorf("work: count the crossings: %w", err)
	case rows == 0 && swings > 1:
		return fmt.Sprintf("the capacity swung %d times, and no crossing was written", swings), nil
	default:
		return "", nil
	}
}
