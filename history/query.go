package history

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/plexsphere/leader-exporter/lockwatch"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
	// maxLooked is how many terms one page looks at, so that a query which matches few of them does not read all at once.
	maxLooked = 10_000
)

// What a caller of Terms can get wrong.
var (
	ErrBadCursor = errors.New("not a cursor of an earlier page")
	ErrBadRange  = errors.New("the range ends before it begins")
)

// Query says which terms to read. The zero value means the newest ones.
type Query struct {
	Target, Datname, Lock string // empty: any
	// From and To bound the time [From, To), of which a term must have a part: from its TermStart to its End, or till now when it
	// has none. Zero: no bound. Where they are equal: the terms that go on through that moment.
	From, To time.Time
	// Limit is how many terms a page may have, at most 1000; a larger one means 1000. Zero and negative: 100.
	Limit int
	// Cursor is the Next of the page before. Empty: the first page.
	Cursor string
}

// Page is one part of an answer.
type Page struct {
	Terms []Entry // newest first, by TermStart, over all targets
	// Next is the Cursor of the next page, and empty when this is the last. A page looks at no more than 10,000 terms, so it can
	// have fewer than Limit of them, even none, and still a Next.
	Next string
}

// Entry is a term and the target that it was seen on.
type Entry struct {
	Target string
	lockwatch.Term
}

// Terms returns one page of the terms that q asks for. Pages that follow each other's Next neither repeat a term nor leave one
// out, whatever is put meanwhile; a term that begins meanwhile is met only if its start is before that of the last one read.
// Errors wrap ErrBadCursor or ErrBadRange where the query is wrong.
func (s *Store) Terms(q Query) (Page, error) { return s.terms(q, nil) }

// terms is Terms, as if the unwritten terms were put.
func (s *Store) terms(q Query, unwritten batch) (Page, error) {
	end, err := q.end()
	if err != nil {
		return Page{}, fmt.Errorf("history: read terms: %w", err)
	}
	if q.Limit <= 0 {
		q.Limit = defaultLimit
	}
	q.Limit = min(q.Limit, maxLimit)
	var page Page
	over := overlayOf(unwritten, end)
	err = s.view(func(tx *bbolt.Tx) (err error) {
		page, err = booksOf(tx).page(q, end, over, time.Now())
		return err
	})
	if err != nil {
		return Page{}, fmt.Errorf("history: read terms of %s: %w", s.name, err)
	}
	return page, nil
}

// end returns the key before which the walk begins; nil when at the newest term.
func (q Query) end() ([]byte, error) {
	if !q.From.IsZero() && !q.To.IsZero() && q.To.Before(q.From) {
		return nil, ErrBadRange
	}
	var end []byte
	if q.Cursor != "" {
		k, err := base64.RawURLEncoding.DecodeString(q.Cursor)
		if _, ok := parseKey(k); err != nil || !ok {
			return nil, ErrBadCursor
		}
		end = k
	}
	if !q.To.IsZero() {
		if to := appendTime(nil, q.To); end == nil || bytes.Compare(to, end) < 0 {
			end = to
		}
	}
	return end, nil
}

// page walks back from the key end, through the bucket and what lies over it.
func (b books) page(q Query, end []byte, over overlay, now time.Time) (Page, error) {
	var page Page
	var last []byte // the key of the last term that was looked at and is settled
	looked := 0
	back := b.walkBack(end, over)
	for k, v, unwritten := back.next(); k != nil; k, v, unwritten = back.next() {
		if looked++; looked > maxLooked {
			page.Next = base64.RawURLEncoding.EncodeToString(last)
			break
		}
		parsed, ok := parseKey(k)
		if !ok {
			return Page{}, errBadKey(k)
		}
		if q.names(parsed) {
			t, err := termOf(parsed, v, unwritten)
			if err != nil {
				return Page{}, err
			}
			if q.covers(t, now) {
				if len(page.Terms) == q.Limit {
					page.Next = base64.RawURLEncoding.EncodeToString(last)
					break
				}
				page.Terms = append(page.Terms, Entry{Target: string(parsed.target), Term: t})
			}
		}
		last = k
	}
	return page, nil
}

// names reports whether the names of a term are among those asked for.
func (q Query) names(k key) bool {
	return (q.Target == "" || q.Target == string(k.target)) &&
		(q.Datname == "" || q.Datname == string(k.datname)) &&
		(q.Lock == "" || q.Lock == string(k.lock))
}

// covers reports whether the term, which began before To, lasts into the range.
func (q Query) covers(t lockwatch.Term, now time.Time) bool {
	end := t.End
	if end.IsZero() {
		end = now
	}
	return q.From.IsZero() || end.After(q.From)
}

// OpenTerms returns the terms that have no end, by target and start.
func (s *Store) OpenTerms() ([]Entry, error) {
	var entries []Entry
	err := s.view(func(tx *bbolt.Tx) error {
		b := booksOf(tx)
		return b.open.ForEach(func(k, _ []byte) error {
			_, termKey, _ := cutName(k) // what does not begin with a name leaves nothing, which is no key
			parsed, ok := parseKey(termKey)
			if !ok {
				return errBadKey(k)
			}
			t, err := decode(parsed, b.terms.Get(termKey))
			entries = append(entries, Entry{Target: string(parsed.target), Term: t})
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("history: read open terms of %s: %w", s.name, err)
	}
	return entries, nil
}
