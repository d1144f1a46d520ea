package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/plexsphere/leader-exporter/api"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// watch prints a line for each change that the polls see, until ctx ends.
func watch(ctx context.Context, opts options, output string, stdout, stderr io.Writer) int {
	specs, err := opts.specs()
	if err != nil {
		printProblems(stderr, err)
		return exitFailed
	}
	out := &printer{w: stdout, format: output}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	for _, s := range specs {
		watcher, err := s.watcher(opts, slog.New(slog.DiscardHandler), nil, func(snapshot lockwatch.Snapshot) {
			if out.show(snapshot.At, s.target.Name, s.apiTarget().LocksOf(snapshot, time.Now())) != nil {
				cancel() // nobody reads any more
			}
		})
		if err != nil {
			fmt.Fprintf(stderr, "leader-exporter: watch: %v\n", err)
			return exitFailed
		}
		watching.Go(func() { _ = watcher.Run(ctx) }) // it never returns an error
	}
	watching.Wait()
	if out.err != nil {
		fmt.Fprintf(stderr, "leader-exporter: watch: write a line: %v\n", out.err)
		return exitFailed
	}
	return exitOK
}

// printer prints what is not as it was. Safe from any goroutine.
type printer struct {
	mu      sync.Mutex // guards the fields below and the order of lines
	w       io.Writer
	format  string
	changes api.Changes
	err     error
}

// show prints those locks of a poll of the target of which something else is to be said than after the poll before.
func (p *printer) show(at time.Time, target string, locks []api.Lock) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at = at.UTC()
	changed, removed := p.changes.Of(target, locks)
	for _, lock := range changed {
		lock.At = &at
		p.print(at, lock, lock.String())
	}
	for _, gone := range removed {
		p.print(at, removal{Removed: gone, Gone: true, At: at}, gone.String())
	}
	return p.err
}

// removal is the line of JSON for what is not watched any more.
type removal struct {
	api.Removed
	Gone bool      `json:"removed"` // always true
	At   time.Time `json:"at"`
}

// print prints one line, unless an earlier one could not be printed.
func (p *printer) print(at time.Time, object any, text string) {
	switch {
	case p.err != nil:
	case p.format == "json":
		p.err = json.NewEncoder(p.w).Encode(object)
	default:
		_, p.err = fmt.Fprintf(p.w, "%s  %s\n", at.Format("2006-01-02T15:04:05.000Z07:00"), text)
	}
}
