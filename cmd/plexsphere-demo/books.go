package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/cmd/plexsphere-demo/work"
)

// afterwards is how long a statement may go on that was under way when its replica stopped leading.
const afterwards = 250 * time.Millisecond

// books makes rows fall due, follows the lock, and proves in the end that each row was handled once and where it might be.
type books struct {
	pool    *pgxpool.Pool
	leaders work.Leaders

	seeding, watching context.CancelFunc
	seeded, watched   sync.WaitGroup

	mu  sync.Mutex
	err error // of either; guarded by mu
}

// openBooks starts to make rows fall due, in the database that the replicas have prepared.
func openBooks(ctx context.Context, dsn string, loopInterval time.Duration) (*books, error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, err
	}
	b := &books{pool: pool}
	watching, stopWatch := context.WithCancel(ctx)
	seeding, stopSeed := context.WithCancel(ctx)
	b.watching, b.seeding = stopWatch, stopSeed
	b.watched.Go(func() { b.fail(b.leaders.Watch(watching, dsn)) })
	b.seeded.Go(func() { b.fail(b.seed(seeding, loopInterval)) })
	return b, nil
}

// seed makes rows that fall due at once and in a while, until ctx ends.
func (b *books) seed(ctx context.Context, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		for _, after := range []time.Duration{0, every / 2} {
			if err := work.Seed(ctx, b.pool, after); ctx.Err() != nil {
				return nil
			} else if err != nil {
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

// balance stops to make rows fall due, waits until all of them are handled, no longer than patience, and returns what the
// books say, or an error that names what is wrong.
func (b *books) balance(ctx context.Context, patience time.Duration) (string, error) {
	b.seeding()
	b.seeded.Wait()
	if err := b.awaitHandled(ctx, patience); err != nil {
		return "", err
	}
	account, err := work.Close(ctx, b.pool)
	if err != nil {
		return "", err
	}
	checked, trespasses, err := b.leaders.Trespasses(ctx, b.pool, afterwards)
	if err != nil {
		return "", err
	}
	if len(trespasses) > 0 {
		err = fmt.Errorf("%d rows were handled on a replica that did not lead, the first: %s", len(trespasses), strings.Join(trespasses[:1], ""))
	}
	if err := errors.Join(account.Err(), err); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d rows fell due, each was handled once; %d of them by the leader's loops, in %d terms, on the replica that led (pg_locks seen every %v or sooner)",
		account.Due, checked, b.leaders.Terms(), b.leaders.WorstGap().Round(time.Millisecond)), nil
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
