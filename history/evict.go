package history

import (
	"bytes"
	"sort"
)

// evictShare is the part of the limit that goes at once when it is passed, so that the walk over all terms comes seldom: once in a thousand
// terms where there may be 100,000.
const evictShare = 100

// evict deletes terms if there are more than limit, and returns how many: at least the excess, and a hundredth of the limit where as
// many have ended. The first ones of those locks go that have the most, so one that changes hands all day does not cost
// the others their past. Terms without an end go only when no others are left: they say who leads now.
func (b books) evict(limit int) (int, error) {
	excess := b.len() - limit
	if excess <= 0 {
		return 0, nil
	}
	ended, total := make(map[string]int), 0 // by lock
	err := b.each(func(lock, _ []byte, open bool) bool {
		if !open {
			ended[string(lock)]++
			total++
		}
		return true
	})
	if err != nil {
		return 0, err
	}
	wanted := max(excess, min(limit/evictShare, total))
	kept := level(ended, min(wanted, total))
	var gone, last [][]byte
	err = b.each(func(lock, k []byte, open bool) bool {
		switch {
		case open:
			if len(last) < wanted-total {
				last = append(last, bytes.Clone(k))
			}
		case ended[string(lock)] > kept:
			ended[string(lock)]--
			gone = append(gone, bytes.Clone(k))
		}
		return len(gone)+len(last) < wanted
	})
	if err != nil {
		return 0, err
	}
	return wanted, b.remove(append(gone, last...)...)
}

// each calls do with the terms in the order of their start until it returns false: with the target, database and lock of each in the form
// of its key, with its key, both of which are parts of the file, and with whether it has no end.
func (b books) each(do func(lock, k []byte, open bool) bool) error {
	c := b.terms.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		parsed, ok := parseKey(k)
		if !ok {
			return errBadKey(k)
		}
		open := b.open.Get(openKey(string(parsed.target), k)) != nil
		if !do(k[timeSize:len(k)-pidSize], k, open) {
			return nil
		}
	}
	return nil
}

// level returns the most that each lock may keep if at least n of their terms shall go.
func level(terms map[string]int, n int) int {
	most := 0
	for _, count := range terms {
		most = max(most, count)
	}
	return sort.Search(most, func(i int) bool { // the least number to keep with which too few go
		gone := 0
		for _, count := range terms {
			gone += max(0, count-i)
		}
		return gone < n
	}) - 1
}
