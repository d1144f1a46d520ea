// Command bench measures leader-exporter and the package leader beside what a user would pick instead, in one run, and prints one
// Markdown table with the ratios.
//
// It is a module of its own, so that client-go, which it compares with, takes no part in the choice of anybody's versions (ADR 24).
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// extent is how much is measured.
type extent struct {
	rounds    int           // of each measurement: the samples of a row
	scrapes   int           // a round, at most
	scraping  time.Duration // a round, at most
	minute    time.Duration // in which CPU time is counted; whole scrapes of 15 s
	stall     time.Duration // a round, in which the longest call is looked for
	locks     []int         // on the server, beside the leader's
	targets   []int         // of one exporter
	standbys  []int
	window    time.Duration // in which targets and standbys are counted
	benchTime string        // of a Go benchmark
}

func whole() extent {
	return extent{
		rounds: 5, scrapes: 500, scraping: 2 * time.Second, minute: 30 * time.Second, stall: 6 * time.Second,
		locks: []int{0, 10_000, 100_000}, targets: []int{1, 10, 100, 500}, standbys: []int{3, 30, 300}, window: 10 * time.Second, benchTime: "300ms",
	}
}

// smoke measures next to nothing, in every way.
func smoke() extent {
	return extent{
		rounds: 1, scrapes: 5, scraping: 200 * time.Millisecond, minute: time.Second, stall: 200 * time.Millisecond,
		locks: []int{0, 100}, targets: []int{1, 3}, standbys: []int{1, 3}, window: time.Second, benchTime: "1x",
	}
}

// part is what can be measured by itself.
type part struct {
	name    string
	measure func(ctx context.Context, b *bench) error
}

func parts() []part {
	return []part{
		{"exporters", measureExporters},
		{"poll", measurePoll},
		{"scale", measureScale},
		{"elector", measureElector},
		{"handover", measureHandover},
		{"standbys", measureStandbys},
	}
}

// run is the command: 0 when all was measured, whatever the ratios, 1 when something was not, 2 for an error of usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	short := flags.Bool("smoke", false, "measure next to nothing, to see that every part works")
	only := flags.String("parts", "", "comma-separated parts to measure, of "+strings.Join(names(), ", ")+" (default all)")
	update := flags.String("update", "", "also replace the table in this `file`, between the lines that mark it")
	floor := flags.String("floor", "", "only ask the server at this `DSN` SELECT 1 once a second, which run does in a process of its own")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *floor != "" {
		if err := askEachSecond(ctx, *floor); err != nil {
			fmt.Fprintf(stderr, "bench: -floor: %v\n", err)
			return 1
		}
		return 0
	}
	wanted := parts()
	if *only != "" {
		var err error
		if wanted, err = selected(strings.Split(*only, ",")); err != nil {
			fmt.Fprintf(stderr, "bench: -parts: %v\n", err)
			return 2
		}
	}
	klog.LogToStderr(false) // client-go logs there by itself
	klog.SetOutput(io.Discard)
	b := &bench{extent: whole(), progress: stderr}
	if *short {
		b.extent = smoke()
	}
	table, err := b.run(ctx, wanted)
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
	fmt.Fprint(stdout, table)
	if *update != "" {
		if err := replaceTable(*update, table); err != nil {
			fmt.Fprintf(stderr, "bench: -update: %v\n", err)
			return 1
		}
	}
	return 0
}

// names are those of all parts.
func names() (all []string) {
	for _, p := range parts() {
		all = append(all, p.name)
	}
	return all
}

// selected returns the parts with these names.
func selected(wanted []string) (found []part, err error) {
	for _, name := range wanted {
		before := len(found)
		for _, p := range parts() {
			if p.name == name {
				found = append(found, p)
			}
		}
		if len(found) == before {
			return nil, fmt.Errorf("there is no part %q", name)
		}
	}
	return found, nil
}
