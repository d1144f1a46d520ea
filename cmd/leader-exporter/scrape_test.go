package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a page of metrics that tells how often it was made.
type counted struct {
	made       atomic.Int64
	generation atomic.Uint64
	scrapes    *scrapes
}

func newCounted() *counted {
	c := &counted{}
	c.scrapes = &scrapes{generation: c.generation.Load, handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/"+r.Header.Get("Accept"))
		w.WriteHeader(http.StatusAccepted)
		time.Sleep(10 * time.Millisecond) // others come meanwhile
		fmt.Fprintf(w, "%d", c.made.Add(1))
	})}
	return c
}

// scrape returns the number of the page that it gets.
func (c *counted) scrape(t *testing.T, accept string) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	c.scrapes.ServeHTTP(w, r)
	n, err := strconv.Atoi(w.Body.String())
	if err != nil || w.Code != http.StatusAccepted || w.Header().Get("Content-Type") != "text/"+accept ||
		w.Header().Get("Content-Length") != strconv.Itoa(w.Body.Len()) {
		t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
	}
	return n
}

func TestScrapesShareAPageUntilSomethingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounted()
		for _, step := range []struct {
			because string
			before  func()
			accept  string
			want    int
		}{
			{"it is the first", func() {}, "plain", 1},
			{"nothing has changed", func() {}, "plain", 1},
			{"it asks in another way", func() {}, "other", 2},
			{"the first page is kept beside it", func() {}, "plain", 1},
			{"a poll has ended", func() { c.generation.Add(1) }, "plain", 3},
			{"the page is not too old", func() { time.Sleep(maxPageAge - 10*time.Millisecond) }, "plain", 3},
			{"the page is too old", func() { time.Sleep(time.Millisecond) }, "plain", 4},
		} {
			step.before()
			if got := c.scrape(t, step.accept); got != step.want {
				t.Errorf("%s: page %d; want %d", step.because, got, step.want)
			}
		}
	})
}

// What changes while a page is made may be missing from it.
func TestAPageThatWasOvertakenIsNotServedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounted()
		go c.scrape(t, "plain")
		time.Sleep(5 * time.Millisecond)
		c.generation.Add(1)
		if got := c.scrape(t, "plain"); got != 2 {
			t.Errorf("page %d; want another one than the one under way", got)
		}
	})
}

func TestScrapesThatComeTogetherMakeOnePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounted()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { c.scrape(t, "plain") })
		}
		all.Wait()
		if got := c.made.Load(); got != 1 {
			t.Errorf("%d pages were made; want 1", got)
		}
	})
}

func TestPagesOfScrapersThatAskInManyWaysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounted()
		for i := range 10 * maxPages {
			c.scrape(t, strconv.Itoa(i))
			if got := len(c.scrapes.pages); got > maxPages {
				t.Fatalf("%d pages are kept; want at most %d", got, maxPages)
			}
		}
	})
}
