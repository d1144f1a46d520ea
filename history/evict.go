package history

import (
	"bytes"
	"sort"
)

// evictShare is the part of the limit that goes at once when it is passed, so that the walk over all terms comes seldom: once in a thousand
// terms where there may be 100,000.
const evictShare = 100

// evict deletes terms if there are more than limit, and returns how many: the excess, or a hundredth of the limit if that is more
// and as many have ended. The first ones of those locks go that have the most, so one that changes hands all day does not cost
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
	wanted := excess
	if batch := limit / evictShare; batch <= total {
		wanted = max(wanted, batch)
	}
	kept, spare := level(ended, min(wanted, total))
	var gone, last [][]byte
	err = b.each(func(lock, k []byte, open bool) bool {
		switch {
		case open:
			if len(last) < wanted-total {
				last = append(last, bytes.Clone(k))
			}
		case ended[string(lock)] > kept+1:
			ended[string(lock)]--
			gone = append(gone, bytes.Clone(k))
		case ended[string(lock)] == kept+1 && spare > 0:
			ended[string(lock)]--
			spare--
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

// level returns how many terms each lock may keep if n of them shall go, and how many locks have to go down to that; others may keep one more.
func level(terms map[string]int, n int) (kept, down int) {
	most := 0
	for _, count := range terms {
		most = max(most, count)
	}
	gone := func(kept int) (sum int) {
		for _, count := range terms {
			sum += max(0, count-kept)
		}
		return sum
	}
	kept = sort.Search(most, func(i int) bool { return gone(i) < n }) - 1
	return kept, n - gone(kept+1)
}
