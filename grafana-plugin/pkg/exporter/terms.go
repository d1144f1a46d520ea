package exporter

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

const (
	pageSize = 1000 // the most that the API gives
	// MaxTerms is the most that one query may ask for.
	MaxTerms = 10_000
	// maxPages bounds a query whose pages are short.
	maxPages = 4 * MaxTerms / pageSize
)

// Terms returns those that went on in the range, newest first, and whether older ones were left out because limit, or the
// number of pages, was reached. The limit is at most MaxTerms. Callers must not change what they get: it may be shared.
func (c *Client) Terms(ctx context.Context, f Filter, from, to time.Time, limit int) ([]Term, bool, error) {
	limit = min(limit, MaxTerms)
	query := f.query()
	query.Set("from", from.UTC().Format(time.RFC3339Nano))
	query.Set("to", to.UTC().Format(time.RFC3339Nano))
	key := fmt.Sprintf("terms?%s %d %q", query.Encode(), limit, f)
	type terms struct {
		list []Term
		cut  bool
	}
	found, err := share(ctx, c, key, func(ctx context.Context) (found terms, err error) {
		for range maxPages {
			var page struct {
				Terms []Term `json:"terms"`
				Next  string `json:"next"`
			}
			query.Set("limit", strconv.Itoa(min(pageSize, limit-len(found.list)+1)))
			if err := c.get(ctx, "api/v1/terms", query, &page); err != nil {
				return terms{}, err
			}
			for _, term := range page.Terms {
				if f.selects(term.Target, term.Datname, term.Lock) {
					found.list = append(found.list, term)
				}
			}
			if len(found.list) > limit {
				return terms{found.list[:limit:limit], true}, nil
			}
			if page.Next == "" {
				return found, nil
			}
			query.Set("cursor", page.Next)
		}
		found.cut = true
		return found, nil
	})
	return found.list, found.cut, err
}
