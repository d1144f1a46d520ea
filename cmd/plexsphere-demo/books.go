package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/cmd/plexsphere-demo/work"
)

// blindest is how long the lock may go unseen, at least: beyond that, nothing is proven.
const blindest = time.Second

// afterwards is how long a statement may go on that was under way when its replica stopped leading.
const afterwards = 250 * time.Millisecond

// books makes rows fall due, follows the lock, and proves in the end that each row was handled once and where it might be.
type books struct {
	pool          *pgxpool.Pool
	leaders       work.Leaders
	checkInterval time.Duration // of the elector
	loopInterval  time.Duration // from one pass of a loop to the next

	seeding, watching context.CancelFunc
	seeded, watched   sync.WaitGroup

	mu  sync.Mutex
	err error // of either; guarded by mu
}

// openBooks starts to make rows fall due, in the database that the replicas have prepared.
func openBooks(ctx context.Context, dsn string, checkInterval, loopInterval time.Duration) (*books, error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, err
	}
	b := &books{pool: pool, checkInterval: checkInterval, loopInterval: loopInterval}
	watching, stopWatch := context.WithCancel(ctx)
	seeding, stopSeed := context.WithCancel(ctx)
	b.watching, b.seeding = stopWatch, stopSeed
	b.watched.Go(func() { b.fail(b.leaders.Watch(watching, dsn)) })
	b.seeded.Go(func() { b.fail(b.seed(seeding)) })
	return b, nil
}

// swingEvery is how many times rows are made for each swing of the capacity.
const swingEvery = 5

// seed makes rows that fall due at once and in a while, until ctx ends. It begins once the lock is looked at.
func (b *books) seed(ctx context.Context) error {
	ticker := time.NewTicker(b.loopInterval)
	defer ticker.Stop()
	for n := 0; ; {
		if b.leaders.Looked() {
			n++
			err := b.seedOnce(ctx, n%swingEvery == 0)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (b *books) seedOnce(ctx context.Context, swing bool) error {
	for _, after := range []time.Duration{0, b.loopInterval / 2} {
		if err := work.Seed(ctx, b.pool, after); err != nil {
			return err
		}
	}
	if swing {
		return work.SwingCapacity(ctx, b.pool)
	}
	return nil
}

func (b *books) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = errors.Join(b.err, err)
}

// fault returns what went wrong with the books themselves.
func (b *books) fault() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// balance stops to make rows fall due, waits until all of them are handled, and returns what the books say, or an error that
// names what is wrong. What falls due may take a handover and some passes.
func (b *books) balance(ctx context.Context) (string, error) {
	b.seeding()
	b.seeded.Wait()
	patience := 5*b.checkInterval + 20*b.loopInterval
	if err := b.awaitHandled(ctx, patience); err != nil {
		return "", err
	}
	account, err := work.Close(ctx, b.pool, patience)
	if err != nil {
		return "", err
	}
	checked, trespasses, err := b.leaders.Trespasses(ctx, b.pool, afterwards)
	if err != nil {
		return "", err
	}
	hurried, err := work.Hurried(ctx, b.pool, b.loopInterval)
	if err != nil {
		return "", err
	}
	gap := b.leaders.WorstGap()
	problems := []error{account.Err()}
	if len(trespasses) > 0 {
		problems = append(problems, fmt.Errorf("%d passes were made on a replica that did not lead, the first: %s", len(trespasses), trespasses[0]))
	}
	if len(hurried) > 0 {
		problems = append(problems, fmt.Errorf("a loop ran twice at once: %d findings, the first: %s", len(hurried), hurried[0]))
	}
	if gap > max(blindest, b.checkInterval) {
		problems = append(problems, fmt.Errorf("pg_locks was not seen for %v, so that nothing is proven", gap))
	}
	if err := errors.Join(problems...); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d rows fell due, each was handled once and in time; %d passes of the leader's loops, in %d terms, all on the replica that led (pg_locks seen every %v or sooner)",
		account.Due, checked, b.leaders.Terms(), gap.Round(time.Millisecond)), nil
}

// awaitHandled waits until nothing is outstanding. It is no error when something still is in the end: the account names it.
func (b *books) awaitHandled(ctx context.Context, patience time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		outstanding, err := work.Outstanding(bounded, b.pool)
		switch {
		case bounded.Err() != nil:
			return ctx.Err()
		case err != nil || outstanding == 0:
			return err
		}
		select {
		case <-bounded.Done():
		case <-ticker.C:
		}
	}
}

// close stops everything that belongs to the books.
func (b *books) close() {
	b.seeding()
	b.watching()
	b.seeded.Wait()
	b.watched.Wait()
	b.pool.Close()
}
