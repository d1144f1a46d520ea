package leader_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// watchLock records who holds the lock, by pg_locks, looking every few milliseconds until the end of the test. A replica's
// application_name is its name. While the server does not answer it sees nothing.
func watchLock(t *testing.T, history *leadertest.History, dsn string) *lockWatcher {
	t.Helper()
	w := &lockWatcher{history: history, dsn: dsn, held: make(map[uint32]holding)}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for ctx.Err() == nil {
			w.look(ctx)
			<-ticker.C
		}
		if w.conn != nil {
			_ = w.conn.Close(context.Background())
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return w
}

type lockWatcher struct {
	history *leadertest.History
	dsn     string
	conn    *pgx.Conn

	mu    sync.Mutex // guards the fields below
	held  map[uint32]holding
	worst time.Duration
}

// slowest returns how long the slowest look took: for so long the machine, or the server, let everybody wait. Looks that
// failed do not count.
func (w *lockWatcher) slowest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.worst
}

// holder returns who held the lock when last seen, if somebody did.
func (w *lockWatcher) holder() (holding, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.held {
		return h, true
	}
	return holding{}, false
}

// holding is one row of the query.
type holding struct {
	PID  uint32
	Name string
}

func (w *lockWatcher) look(ctx context.Context) {
	begin := time.Now()
	rows, err := w.query(ctx)
	if err != nil {
		if w.conn != nil {
			_ = w.conn.Close(ctx)
			w.conn = nil
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.worst = max(w.worst, time.Since(begin))
	before := w.held
	w.held = make(map[uint32]holding)
	for _, row := range rows {
		w.held[row.PID] = row
	}
	for pid := range before {
		if _, still := w.held[pid]; !still {
			w.history.LockReleased(pid)
		}
	}
	for _, row := range rows {
		if _, already := before[row.PID]; !already {
			w.history.LockGranted(row.PID, row.Name)
		}
	}
}

func (w *lockWatcher) query(ctx context.Context) ([]holding, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if w.conn == nil {
		conn, err := pgx.Connect(ctx, w.dsn)
		if err != nil {
			return nil, err
		}
		w.conn = conn
	}
	rows, err := w.conn.Query(ctx, `SELECT l.pid, coalesce(a.application_name, '') AS name
		FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
		WHERE l.locktype = 'advisory' AND l.classid = 1886156915 AND l.objid = 1 AND l.objsubid = 2 AND l.granted
		AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[holding])
}
