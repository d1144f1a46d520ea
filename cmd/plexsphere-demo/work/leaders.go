package work

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// lookEvery is the time between two looks at pg_locks.
const lookEvery = 10 * time.Millisecond

// Leaders is the history of the lock, as pg_locks showed it, on the server's clock. The zero value is an empty one.
type Leaders struct {
	mu     sync.Mutex    // guards the fields below
	tenure []tenure      // in their order
	first  time.Time     // the first look
	last   time.Time     // the last look
	worst  time.Duration // between two looks
}

// tenure is a time through which a replica was seen to hold the lock.
type tenure struct {
	replica string // its application_name
	pid     int32
	after   time.Time // the look before the first that showed it; that one itself where there is none
	seen    time.Time // the last look that showed it
	until   time.Time // the look after that, which did not; zero while there is none
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
	before := l.last
	if before.IsZero() {
		before, l.first = now, now
	}
	l.worst = max(l.worst, now.Sub(before))
	l.last = now
	n := len(l.tenure)
	if n > 0 && pid != nil && l.tenure[n-1].pid == *pid {
		l.tenure[n-1].seen = now
		return nil
	}
	if n > 0 && l.tenure[n-1].until.IsZero() {
		l.tenure[n-1].until = now
	}
	if pid != nil && replica != nil {
		l.tenure = append(l.tenure, tenure{replica: *replica, pid: *pid, after: before, seen: now})
	}
	return nil
}

// Looked reports whether the lock was looked at.
func (l *Leaders) Looked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.last.IsZero()
}

// Terms returns how many terms were seen.
func (l *Leaders) Terms() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.tenure)
}

// WorstGap returns the longest time between two looks: how exact the history is.
func (l *Leaders) WorstGap() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.worst
}
