package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// stalls measures the longest pg_try_advisory_lock of another session, one exporter after the other, and one read of the rivals'. On a machine
// with other work the longest of one round is a moment of that, so the median of rounds is told.
func (f *field) stalls(ctx context.Context) error {
	got, read := figures{}, samples{}
	for range f.b.extent.rounds {
		for _, s := range append(slices.Clone(f.stations), f.empty) {
			worst, err := f.worstCall(ctx, s)
			if err != nil {
				return err
			}
			got.note(s.name, worst)
		}
		begin := time.Now()
		if _, err := f.empty.admin.Exec(ctx, rivalQuery); err != nil {
			return err
		}
		read = append(read, milliseconds(time.Since(begin)))
	}
	var most float64 // the target is one for many locks; a read of few takes no longer than the machine's noise
	if f.locks == slices.Max(f.b.extent.locks) {
		most = 1
	}
	what := fmt.Sprintf("longest pg_try_advisory_lock of others, %d locks", f.locks)
	return cmp.Or(
		f.add("longest pg_try_advisory_lock of others", "ms", got, 0, 0),
		f.b.add(row{what: what, unit: "ms", ours: got[ours], alternative: "no exporter", theirs: got[f.empty.name]}),
		f.b.add(row{what: what, unit: "ms", ours: got[ours], alternative: "one read of theirs", theirs: read, atMost: most}),
	)
}

// worstCall takes and frees a lock again and again, and returns the longest that a call took. The exporter is scraped meanwhile, so that
// the one which reads only then reads too.
func (f *field) worstCall(ctx context.Context, s *station) (worst float64, err error) {
	conn, err := connect(ctx, s.server, "stall")
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	ctx, stop := context.WithCancel(ctx)
	scraped := make(chan error, 1)
	go func() { scraped <- scrapeUntil(ctx, s.url, f.b.extent.stall/4) }()
	for end := time.Now().Add(f.b.extent.stall); time.Now().Before(end); {
		begin := time.Now()
		if _, err := conn.Exec(ctx, "SELECT pg_try_advisory_lock(8, 1)"); err != nil {
			stop()
			return 0, err
		}
		worst = max(worst, milliseconds(time.Since(begin)))
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_unlock(8, 1)"); err != nil {
			stop()
			return 0, err
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			stop()
			return 0, err
		}
	}
	stop()
	return worst, <-scraped
}

// scrapeUntil scrapes at an interval until ctx ends. Without a URL it only waits.
func scrapeUntil(ctx context.Context, url string, interval time.Duration) error {
	client := newScraper()
	for pause(ctx, interval) == nil {
		if url == "" {
			continue
		}
		if _, _, err := client.scrape(ctx, url); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}
