package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/plexsphere/leader-exporter/lockwatch"
)

// change is a line of watch: what a target, or a lock of it, is since that moment.
type change struct {
	At time.Time `json:"at"` // by this machine's clock
	report
}

// watch prints a line for each change that the polls see, until ctx ends.
func watch(ctx context.Context, opts options, stdout, stderr io.Writer) int {
	specs, err := opts.specs()
	if err != nil {
		printProblems(stderr, err)
		return exitFailed
	}
	out := &printer{w: stdout, format: opts.output, last: make(map[string]map[string]string)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	for _, s := range specs {
		watcher, err := s.watcher(opts, slog.New(slog.DiscardHandler), func(snapshot lockwatch.Snapshot) {
			if out.show(snapshot.At, s.target.Name, judge(s.target, snapshot, snapshot.Err)) != nil {
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
	mu     sync.Mutex // guards the fields below and the order of lines
	w      io.Writer
	format string
	last   map[string]map[string]string // what the last poll of each target said, by lock and database
	err    error
}

// show prints those reports of a poll of the target that say something else than the poll before.
func (p *printer) show(at time.Time, target string, reports []report) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	said := make(map[string]string)
	for _, r := range reports {
		id, text := r.Lock+"/"+r.Datname, r.text()
		said[id] = text
		if p.last[target][id] != text && p.err == nil {
			p.err = p.print(change{at.UTC(), r}, text)
		}
	}
	p.last[target] = said
	return p.err
}

func (p *printer) print(c change, text string) error {
	if p.format == "json" {
		return json.NewEncoder(p.w).Encode(c)
	}
	_, err := fmt.Fprintf(p.w, "%s  %s\n", c.At.Format("2006-01-02T15:04:05.000Z07:00"), text)
	return err
}

// text says in words who holds the lock. It leaves out what changes while nothing happens.
func (r report) text() string {
	name := strings.TrimSuffix(strings.Join([]string{r.Target, r.Lock, r.Datname}, " "), " ")
	switch {
	case r.Verdict == "unknown":
		return name + ": unknown: " + r.Error
	case r.Verdict == "multiple":
		return fmt.Sprintf("%s: held by %d sessions", name, r.Holders)
	case r.Holder == nil:
		return name + ": held by nobody"
	default:
		who := fmt.Sprintf("backend %d", r.Holder.PID)
		for _, detail := range []string{r.Holder.ApplicationName, r.Holder.Usename, r.Holder.ClientAddr} {
			if detail != "" {
				who += ", " + detail
			}
		}
		if r.Holder.BackendStart != nil {
			who += ", started " + r.Holder.BackendStart.Format(time.RFC3339)
		}
		return name + ": held by " + who
	}
}
