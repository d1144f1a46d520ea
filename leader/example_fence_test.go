package leader_test

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/leader"
)

var errReplaced = errors.New("a later leader has written here")

// A write that compares the fence: a leader that was replaced without knowing it, because its process was paused or its
// network cut, cannot undo what its successor wrote. The row keeps the fence of its last writer.
func ExampleFenceFrom() {
	var elector *leader.Elector // made with leader.New
	var pool *pgxpool.Pool

	_, _ = elector.Do(context.Background(), func(ctx context.Context) error {
		return moveCursor(ctx, pool, 4711)
	})
}

// moveCursor is work of a term: ctx comes from Do or Term.
func moveCursor(ctx context.Context, pool *pgxpool.Pool, position int64) error {
	fence, ok := leader.FenceFrom(ctx)
	if !ok {
		return errors.New("move the cursor: not called on the leader")
	}
	tag, err := pool.Exec(ctx, `UPDATE cursors SET position = $1, fence = $2 WHERE name = 'relay' AND fence <= $2`, position, int64(fence))
	if err == nil && tag.RowsAffected() == 0 {
		err = errReplaced
	}
	return err
}
