package history

import (
	"bytes"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/plexsphere/leader-exporter/lockwatch"
)

// overlay are terms that lie over those of the Store, the first key last. Where both have a key, the newer one counts.
type overlay []overlaid

type overlaid struct {
	key  []byte
	term lockwatch.Term
}

// overlayOf returns the overlay of terms before the key end; nil is no bound. A term that no Store takes is not in it.
func overlayOf(terms batch, end []byte) (over overlay) {
	for target, terms := range terms {
		for _, t := range terms {
			k, err := keyOf(target, t)
			if err == nil && (end == nil || bytes.Compare(k, end) < 0) {
				over = append(over, overlaid{k, t})
			}
		}
	}
	slices.SortFunc(over, func(a, b overlaid) int { return bytes.Compare(b.key, a.key) })
	return over
}

// walk goes back through a bucket and an overlay as if they were one.
type walk struct {
	c    *bbolt.Cursor
	k, v []byte // where c is
	over overlay
}

// walkBack begins a walk before the key end, or at the last key of all when end is nil.
func (b books) walkBack(end []byte, over overlay) *walk {
	w := &walk{c: b.terms.Cursor(), over: over}
	w.k, w.v = seekBefore(w.c, end)
	return w
}

// seekBefore moves the cursor to the last key before end, or to the last of all when end is nil.
func seekBefore(c *bbolt.Cursor, end []byte) (k, v []byte) {
	if end == nil {
		return c.Last()
	}
	if k, _ := c.Seek(end); k == nil {
		return c.Last()
	}
	return c.Prev()
}

// next returns the next key, nil at the end, and what there is of its term: the value in the bucket, the one that is not written, or both.
func (w *walk) next() (k, v []byte, unwritten *lockwatch.Term) {
	order := -1 // the bucket's key comes first
	if len(w.over) > 0 {
		order = 1
		if w.k != nil {
			order = bytes.Compare(w.over[0].key, w.k)
		}
	}
	if order >= 0 {
		k, unwritten = w.over[0].key, &w.over[0].term
		w.over = w.over[1:]
	}
	if order <= 0 {
		k, v = w.k, w.v
		if k != nil {
			w.k, w.v = w.c.Prev()
		}
	}
	return k, v, unwritten
}

// termOf returns the newer of what there is of a term.
func termOf(k key, written []byte, unwritten *lockwatch.Term) (lockwatch.Term, error) {
	var t lockwatch.Term
	if written != nil {
		var err error
		if t, err = decode(k, written); err != nil || unwritten == nil {
			return t, err
		}
		if !t.End.IsZero() || unwritten.End.IsZero() && t.LastSeen.After(unwritten.LastSeen) {
			return t, nil // it was written meanwhile
		}
	}
	return asWritten(k, *unwritten)
}

// asWritten returns the term as it comes back once it was put.
func asWritten(k key, t lockwatch.Term) (lockwatch.Term, error) {
	encoded, err := encode(t)
	if err != nil {
		return t, err
	}
	return decode(k, encoded)
}
