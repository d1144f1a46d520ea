package main

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// scraper asks as Prometheus 2.42 does, on one connection that it keeps.
type scraper struct{ client *http.Client }

func newScraper() scraper { return scraper{&http.Client{Transport: &http.Transport{}}} }

// scrape returns how long it took until the page was here, and the page.
func (s scraper) scrape(ctx context.Context, url string) (took time.Duration, page string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
	request.Header.Set("Accept-Encoding", "gzip")
	begin := time.Now()
	response, err := s.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body := io.Reader(response.Body)
	if response.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			return 0, "", err
		}
	}
	text, err := io.ReadAll(body)
	took = time.Since(begin)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return took, "\n" + string(text), err
}

// scrapes has clients scrape as often as they can, and returns how long each scrape took.
func (b *bench) scrapes(ctx context.Context, url string, clients int) (took []time.Duration, err error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	end := time.Now().Add(b.extent.scraping)
	for range clients {
		all.Go(func() {
			client := newScraper()
			for n := 0; n < 2 || n < b.extent.scrapes/clients && time.Now().Before(end); n++ {
				one, _, failure := client.scrape(ctx, url)
				mu.Lock()
				if failure != nil {
					err = failure
				} else if n > 0 { // the first connects
					took = append(took, one)
				}
				mu.Unlock()
				if failure != nil {
					return
				}
			}
			client.client.CloseIdleConnections()
		})
	}
	all.Wait()
	return took, err
}

// quantile returns the time below which the share q of the times is, in milliseconds.
func quantile(times []time.Duration, q float64) float64 {
	sorted := slices.Sorted(slices.Values(times))
	return milliseconds(sorted[min(len(sorted)-1, int(q*float64(len(sorted))))])
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
