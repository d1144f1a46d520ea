package work

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Trespasses returns the passes of the leader's loops that were made on a replica which was not seen to lead, to the looks
// before and after its term, or without a fence. afterwards is how long a statement may take that is under way at the end of a
// term. checked is how many passes of such loops there are between the first look and the last.
func (l *Leaders) Trespasses(ctx context.Context, pool *pgxpool.Pool, afterwards time.Duration) (checked int, found []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows, err := pool.Query(ctx, `SELECT pass, replica, coalesce(fence, 0), began_at, ended_at FROM passes
		WHERE origin IN ($1, $2, $3) AND began_at >= $4 AND ended_at <= $5 ORDER BY began_at`, string(Tick), string(Term), string(Gated), l.first, l.last)
	if err != nil {
		return 0, nil, fmt.Errorf("work: look for trespasses: %w", err)
	}
	var pass, replica string
	var fence int64
	var began, ended time.Time
	_, err = pgx.ForEachRow(rows, []any{&pass, &replica, &fence, &began, &ended}, func() error {
		checked++
		if fence == 0 || !l.ledLocked(replica, began, ended.Add(-afterwards)) {
			found = append(found, fmt.Sprintf("%s by %s with fence %d at %s", pass, replica, fence, began.UTC().Format(time.RFC3339Nano)))
		}
		return nil
	})
	if err != nil {
		return 0, nil, fmt.Errorf("work: look for trespasses: %w", err)
	}
	return checked, found, nil
}

// ledLocked reports whether the replica may have led from one moment to the other, in one term.
func (l *Leaders) ledLocked(replica string, from, to time.Time) bool {
	for _, t := range l.tenure {
		if t.replica == replica && !from.Before(t.after) && (t.until.IsZero() || !to.After(t.until)) {
			return true
		}
	}
	return false
}

// slack is how late a pass may come: the next ones then seem to hurry.
const slack = time.Second

// Hurried returns what a loop does that runs twice on one replica: passes of it that overlap, and more of them, in one term of
// the leader's, than its cadence allows for.
func Hurried(ctx context.Context, pool *pgxpool.Pool, cadence time.Duration) (found []string, err error) {
	rows, err := pool.Query(ctx, `WITH ordered AS (
			SELECT *, lag(ended_at) OVER (PARTITION BY pass, replica ORDER BY began_at) AS before FROM passes WHERE origin <> $1
		)
		SELECT format('%s by %s began at %s, before the last one ended', pass, replica, began_at) FROM ordered WHERE began_at < before
		UNION ALL
		SELECT format('%s passes of %s by %s with fence %s in %s', count(*), pass, replica, fence, max(began_at) - min(began_at))
		FROM passes WHERE origin NOT IN ($1, $2) GROUP BY pass, replica, fence
		HAVING count(*) > 2 + (extract(epoch FROM max(began_at) - min(began_at)) + $3) / $4`,
		string(Boot), string(Term), slack.Seconds(), cadence.Seconds())
	if err != nil {
		return nil, fmt.Errorf("work: look for hurried passes: %w", err)
	}
	found, err = pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("work: look for hurried passes: %w", err)
	}
	return found, nil
}
