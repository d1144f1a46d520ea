package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/plexsphere/leader-exporter/api"
)

// check polls every target once, prints what it found, and returns the worst verdict as exit code.
func check(ctx context.Context, opts options, output string, stdout, stderr io.Writer) int {
	specs, err := opts.specs()
	if err != nil {
		printProblems(stderr, err)
		return exitFailed
	}
	found := make([][]api.Lock, len(specs))
	var polling sync.WaitGroup
	for i, s := range specs {
		watcher, err := s.watcher(opts, slog.New(slog.DiscardHandler), nil, nil) // what it would log is in the report
		if err != nil {
			fmt.Fprintf(stderr, "leader-exporter: check: %v\n", err)
			return exitFailed
		}
		polling.Go(func() {
			snapshot, _ := watcher.Poll(ctx) // the error is in the snapshot
			found[i] = s.apiTarget().LocksOf(snapshot, time.Now())
		})
	}
	polling.Wait()
	locks := slices.Concat(found...)
	if err := printLocks(stdout, locks, output); err != nil {
		fmt.Fprintf(stderr, "leader-exporter: check: write the report: %v\n", err)
		return exitFailed
	}
	worst := exitOK
	for _, lock := range locks {
		worst = max(worst, exitCode(lock.Verdict))
		if lock.Error != "" {
			prefix := "leader-exporter: check: "
			if opts.configFile != "" {
				prefix += "target " + lock.Target + ": "
			}
			fmt.Fprintf(stderr, "%s%s\n", prefix, lock.Error)
		}
	}
	return worst
}

// exitCode is what a verdict is to a script.
func exitCode(v api.Verdict) int {
	switch v {
	case api.Held:
		return exitOK
	case api.Unheld:
		return exitUnheld
	case api.Multiple:
		return exitMultiple
	default:
		return exitFailed
	}
}

// printLocks writes the locks as a table, or as a stream of JSON objects.
func printLocks(w io.Writer, locks []api.Lock, format string) error {
	if format == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		for _, lock := range locks {
			if err := encoder.Encode(lock); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TARGET\tDATNAME\tLOCK\tKEY\tVERDICT\tPID\tAPPLICATION\tUSER\tCLIENT\tBACKEND START\tHEARTBEAT AGE\tWAITERS")
	for _, lock := range locks {
		printRow(table, lock)
	}
	return table.Flush()
}

// printRow writes a line of the table.
func printRow(table io.Writer, lock api.Lock) {
	holder, start, age := api.Holder{}, "-", "-"
	pid := "-"
	if lock.Holder != nil {
		holder = *lock.Holder
		pid = fmt.Sprint(holder.PID)
	}
	if holder.BackendStart != nil {
		start = holder.BackendStart.Format(time.RFC3339)
	}
	if holder.HeartbeatAgeSeconds != nil {
		age = time.Duration(*holder.HeartbeatAgeSeconds * float64(time.Second)).Round(time.Millisecond).String()
	}
	fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", lock.Target, cmp.Or(lock.Datname, "-"), lock.Lock, lock.Key, lock.Verdict, pid,
		orDash(holder.ApplicationName), orDash(holder.Usename), orDash(holder.ClientAddr), start, age, orDash(lock.Waiters))
}

// orDash writes a cell of a table: a dash for what is not known, or empty.
func orDash[T any](value *T) string {
	if value == nil {
		return "-"
	}
	return cmp.Or(fmt.Sprint(*value), "-")
}
