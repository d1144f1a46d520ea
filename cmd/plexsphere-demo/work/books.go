package work

import (
	"context"
	"errors"
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
		batch.Queue(`WITH new AS (`+s.seed+`) INSERT INTO due (loop, id, due_at)
			SELECT $2::text, id, CASE WHEN $3 THEN now() ELSE now() + $1 END FROM new`, after, s.Loop, s.atOnce)
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

	wrong    []wrong
	capacity string // what is wrong with the crossings of the capacity
}

// wrong is a kind of mistake, with the rows in which it was made.
type wrong struct {
	what string
	rows []string
}

// The kinds.
const (
	lost = iota
	twice
	early
	late
	undue
)

// Close balances the books. A row has to be handled once, not before it is due, and no later than within the time.
func Close(ctx context.Context, pool *pgxpool.Pool, within time.Duration) (Account, error) {
	a := Account{Handled: make(map[string]int), wrong: []wrong{
		lost: {what: "never handled"}, twice: {what: "handled more than once"}, early: {what: "handled before they were due"},
		late: {what: fmt.Sprintf("handled more than %v after they were due", within)}, undue: {what: "handled and in no list of what falls due"},
	}}
	rows, err := pool.Query(ctx, `SELECT loop, id, due_at IS NOT NULL, count(handled_at),
			coalesce(bool_or(handled_at < due_at), false), coalesce(bool_or(handled_at > due_at + $1::interval), false),
			coalesce(string_agg(concat_ws(' ', replica, origin, fence), ', ' ORDER BY handled_at), '')
		FROM due FULL JOIN handled USING (loop, id)
		WHERE due_at IS NULL OR due_at <= now() OR handled_at IS NOT NULL GROUP BY loop, id, due_at ORDER BY loop, id`, within)
	if err != nil {
		return a, fmt.Errorf("work: balance the books: %w", err)
	}
	var loop, by string
	var id int64
	var times int
	var isDue, isEarly, isLate bool
	_, err = pgx.ForEachRow(rows, []any{&loop, &id, &isDue, &times, &isEarly, &isLate, &by}, func() error {
		a.Due++
		for kind, found := range map[int]bool{lost: times == 0, twice: times > 1, early: isEarly, late: isLate, undue: !isDue} {
			if found {
				a.wrong[kind].rows = append(a.wrong[kind].rows, strings.TrimSuffix(fmt.Sprintf("%s %d by %s", loop, id, by), " by "))
			}
		}
		if times > 0 {
			a.Handled[loop]++
		}
		return nil
	})
	if err == nil {
		a.capacity, err = crossings(ctx, pool)
	}
	if err != nil {
		return a, fmt.Errorf("work: balance the books: %w", err)
	}
	return a, nil
}

// Err returns an error that names rows which were not handled once and in time, and loops that handled none.
func (a Account) Err() error {
	var problems []error
	for _, w := range a.wrong {
		if len(w.rows) > 0 {
			problems = append(problems, fmt.Errorf("%d of %d rows were %s: %s", len(w.rows), a.Due, w.what, some(w.rows)))
		}
	}
	for _, s := range all() {
		if a.Handled[s.Loop] == 0 {
			problems = append(problems, fmt.Errorf("the loop %s has handled no row", s.Loop))
		}
	}
	if a.capacity != "" {
		problems = append(problems, errors.New(a.capacity))
	}
	return errors.Join(problems...)
}

// some lists the first few.
func some(of []string) string {
	const few = 3
	if len(of) > few {
		return strings.Join(of[:few], "; ") + "; ..."
	}
	return strings.Join(of, "; ")
}
