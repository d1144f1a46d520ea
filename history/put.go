package history

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.etcd.io/bbolt"

	"github.com/plexsphere/leader-exporter/lockwatch"
)

// expireBatch is how many terms one transaction of Expire looks at, so that Put never waits long for it.
const expireBatch = 1000

// Put inserts terms of the target, or updates those that it has: a term is known by target, database, lock, start and pid. All
// are on disk when it returns nil, and none is after an error: a start before 1678 (a zero one too) or after 2262, names longer
// than 32 KB together, a full disk, a Store that is closed, damaged or read-only.
//
// One call costs one flush of the disk, whatever the number of terms. Where the Store then has more than MaxTerms, it deletes a
// hundredth of them, and where that is fewer what is too many: the first terms of the locks that have the most, ended ones before open ones. That may be
// a term just put.
func (s *Store) Put(target string, terms ...lockwatch.Term) error {
	if len(terms) == 0 {
		return nil
	}
	evicted := 0
	err := s.update(func(tx *bbolt.Tx) (err error) {
		b := booksOf(tx)
		b.terms.FillPercent = 0.9 // nearly all keys come in their order, and bbolt else leaves half of each page empty for others
		for _, t := range terms {
			if err := b.put(target, t); err != nil {
				return err
			}
		}
		evicted, err = b.evict(s.cfg.MaxTerms)
		return err
	})
	if err != nil {
		return fmt.Errorf("history: put terms in %s: %w", s.name, err)
	}
	if evicted > 0 && s.full.CompareAndSwap(false, true) {
		s.cfg.Logger.WarnContext(context.Background(), "history is full", slog.String("file", s.name), slog.Int("max_terms", s.cfg.MaxTerms))
	}
	return nil
}

// Expire deletes the terms that ended more than Config.Retention before now, and those without an end that were last seen
// before that. It returns how many, also beside an error.
func (s *Store) Expire(now time.Time) (int, error) {
	cutoff := now.Add(-s.cfg.Retention)
	deleted := 0
	for from := []byte{}; from != nil; {
		var n int
		err := s.update(func(tx *bbolt.Tx) (err error) {
			n, from, err = booksOf(tx).expire(cutoff, from)
			return err
		})
		if err != nil {
			return deleted, fmt.Errorf("history: expire terms of %s: %w", s.name, err)
		}
		deleted += n
	}
	return deleted, nil
}

// expire deletes what is to be deleted among the next terms from that key on, and returns their number and where to go on; nil
// at the end. The end is at the first term that began after the cutoff, since no later one can have ended before it.
func (b books) expire(cutoff time.Time, from []byte) (n int, next []byte, err error) {
	var old [][]byte
	c, end := b.terms.Cursor(), appendTime(nil, cutoff)
	k, v := c.Seek(from)
	for looked := 0; k != nil && bytes.Compare(k, end) < 0; k, v = c.Next() {
		if looked++; looked > expireBatch {
			next = bytes.Clone(k)
			break
		}
		parsed, ok := parseKey(k)
		if !ok {
			return 0, nil, errBadKey(k)
		}
		t, err := decode(parsed, v)
		if err != nil {
			return 0, nil, err
		}
		last := t.End
		if last.IsZero() {
			last = t.LastSeen
		}
		if last.Before(cutoff) {
			old = append(old, bytes.Clone(k))
		}
	}
	return len(old), next, b.remove(old...)
}
