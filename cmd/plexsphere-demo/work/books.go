package work

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Seed makes one row for each step that falls due after the time, and enters it into the books.
func Seed(ctx context.Context, pool *pgxpool.Pool, after time.Duration) error {
	var batch pgx.Batch
	for _, s := range all() {
		batch.Queue(`WITH new AS (`+s.seed+`) INSERT INTO due (loop, id, due_at) SELECT $2::text, id, now() + $1 FROM new`, after, s.Loop)
	}
	if err := pool.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("work: make rows that fall due: %w", err)
	}
	return nil
}

// Outstanding returns how many rows are due, or will be, that nobody has handled yet.
func Outstanding(ctx context.Context, pool *pgxpool.Pool) (rows int, err error) {
	err = pool.QueryRow(ctx, `SELECT count(*) FROM due WHERE NOT EXISTS (
		SELECT FROM handled WHERE handled.loop = due.loop AND handled.id = due.id)`).Scan(&rows)
	if err != nil {
		return 0, fmt.Errorf("work: count what is outstanding: %w", err)
	}
	return rows, nil
}

// Account is what the books say.
type Account struct {
	Due     int            // rows that fell due
	Handled map[string]int // rows that each loop handled
	Lost    []string       // rows that nobody handled: loop and id
	Twice   []string       // rows that were handled more than once: loop, id, and by whom
}

// Close balances the books.
func Close(ctx context.Context, pool *pgxpool.Pool) (Account, error) {
	a := Account{Handled: make(map[string]int)}
	rows, err := pool.Query(ctx, `SELECT due.loop, due.id, count(handled.loop),
			coalesce(string_agg(concat_ws(' ', replica, origin, fence), ', ' ORDER BY handled_at), '')
		FROM due LEFT JOIN handled ON handled.loop = due.loop AND handled.id = due.id
		WHERE due_at <= now() GROUP BY due.loop, due.id ORDER BY due.loop, due.id`)
	if err != nil {
		return a, fmt.Errorf("work: balance the books: %w", err)
	}
	var loop, by string
	var id int64
	var times int
	_, err = pgx.ForEachRow(rows, []any{&loop, &id, &times, &by}, func() error {
		a.Due++
		switch {
		case times == 0:
			a.Lost = append(a.Lost, fmt.Sprint(loop, " ", id))
		case times > 1:
			a.Twice = append(a.Twice, fmt.Sprintf("%s %d by %s", loop, id, by))
		}
		if times > 0 {
			a.Handled[loop]++
		}
		return nil
	})
	if err != nil {
		return a, fmt.Errorf("work: balance the books: %w", err)
	}
	return a, nil
}

// Err returns an error that names rows which were not handled exactly once, and loops that handled none.
func (a Account) Err() error {
	var idle []string
	for _, s := range all() {
		if a.Handled[s.Loop] == 0 {
			idle = append(idle, s.Loop)
		}
	}
	if len(a.Lost)+len(a.Twice)+len(idle) == 0 {
		return nil
	}
	return fmt.Errorf("of %d rows that fell due, %d were never handled (%s), %d more than once (%s); loops that handled none: %s",
		a.Due, len(a.Lost), some(a.Lost), len(a.Twice), some(a.Twice), some(idle))
}

// some lists the first few.
func some(of []string) string {
	const few = 3
	if len(of) == 0 {
		return "none"
	}
	if len(of) > few {
		return strings.Join(of[:few], "; ") + "; ..."
	}
	return strings.Join(of, "; ")
}
