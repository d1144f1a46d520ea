package work

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// lookEvery is the time between two looks at pg_locks.
const lookEvery = 10 * time.Millisecond

// Leaders is the history of the lock, as pg_locks showed it, on the server's clock. The zero value is an empty one.
type Leaders struct {
	mu     sync.Mutex    // guards the fields below
	tenure []tenure      // in their order
	last   time.Time     // the last look
	worst  time.Duration // between two looks
}

// tenure is a time through which a replica was seen to hold the lock.
type tenure struct {
	replica     string // its application_name
	pid         int32
	begin, seen time.Time // the first and the last look that showed it
}

// Watch looks until ctx ends. It returns an error when it cannot look, for another reason than that end.
func (l *Leaders) Watch(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return fmt.Errorf("work: watch the lock: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := l.look(ctx, conn); err != nil && ctx.Err() == nil {
			return fmt.Errorf("work: watch the lock: %w", err)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return nil
}

func (l *Leaders) look(ctx context.Context, conn *pgx.Conn) error {
	var now time.Time
	var pid *int32
	var replica *string
	err := conn.QueryRow(ctx, `SELECT clock_timestamp(), l.pid, a.application_name FROM (SELECT) one
		LEFT JOIN pg_locks l ON locktype = 'advisory' AND classid = 1886156915 AND objid = 1 AND objsubid = 2 AND granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		LEFT JOIN pg_stat_activity a ON a.pid = l.pid`).Scan(&now, &pid, &replica)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.IsZero() {
		l.worst = max(l.worst, now.Sub(l.last))
	}
	l.last = now
	if pid == nil || replica == nil {
		return nil
	}
	if n := len(l.tenure); n > 0 && l.tenure[n-1].pid == *pid {
		l.tenure[n-1].seen = now
		return nil
	}
	l.tenure = append(l.tenure, tenure{replica: *replica, pid: *pid, begin: now, seen: now})
	return nil
}

// Terms returns how many terms were seen.
func (l *Leaders) Terms() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.tenure)
}

// WorstGap returns the longest time between two looks.
func (l *Leaders) WorstGap() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.worst
}

// Trespasses returns the rows that a loop of the leader handled on a replica which was not seen to lead at that time, give or
// take WorstGap, and afterwards: how long a statement may take that is under way at the end of a term. checked is how many rows of
// such loops there are.
func (l *Leaders) Trespasses(ctx context.Context, pool *pgxpool.Pool, afterwards time.Duration) (checked int, found []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows, err := pool.Query(ctx, `SELECT loop, id, replica, handled_at FROM handled
		WHERE origin IN ($1, $2, $3) AND handled_at <= $4`, string(Tick), string(Term), string(Gated), l.last)
	if err != nil {
		return 0, nil, fmt.Errorf("work: look for trespasses: %w", err)
	}
	var loop, replica string
	var id int64
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&loop, &id, &replica, &at}, func() error {
		checked++
		if !l.ledLocked(replica, at, afterwards) {
			found = append(found, fmt.Sprintf("%s %d by %s at %s", loop, id, replica, at.UTC().Format(time.RFC3339Nano)))
		}
		return nil
	})
	if err != nil {
		return 0, nil, fmt.Errorf("work: look for trespasses: %w", err)
	}
	return checked, found, nil
}

func (l *Leaders) ledLocked(replica string, at time.Time, afterwards time.Duration) bool {
	for _, t := range l.tenure {
		if t.replica == replica && !at.Before(t.begin.Add(-l.worst)) && !at.After(t.seen.Add(l.worst+afterwards)) {
			return true
		}
	}
	return false
}
