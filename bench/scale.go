package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/leader"
)

// load is what so many targets or standbys cost.
type load struct {
	count                          int
	exporter, server, scrape, peak samples
}

// each is the samples divided by the count.
func (l load) each(s samples) samples { return times(s, 1/float64(l.count)) }

// measureScale has one exporter watch many targets, each a connection of its own.
func measureScale(ctx context.Context, b *bench) error {
	var first *load
	for _, count := range b.extent.targets {
		now, err := b.loadOfTargets(ctx, count)
		if err != nil {
			return err
		}
		if first == nil {
			first = &now
		}
		name, alone := fmt.Sprintf(", %d targets", count), fmt.Sprintf("with %d", first.count)
		memory := row{what: "peak memory" + name, unit: "MiB", ours: now.peak}
		if count == 500 {
			memory.limit = 150
		}
		err = cmp.Or(
			b.add(memory),
			b.add(row{what: "peak memory a target" + name, unit: "MiB", ours: now.each(now.peak), alternative: alone, theirs: first.each(first.peak), atMost: 1}),
			b.add(row{what: "CPU a target and minute, exporter" + name, unit: "ms", ours: now.each(now.exporter), alternative: alone, theirs: first.each(first.exporter), atMost: 1}),
			b.add(row{what: "CPU a target and minute, server" + name, unit: "ms", ours: now.each(now.server), alternative: alone, theirs: first.each(first.server)}),
			b.add(row{what: "scrape time a target" + name, unit: "ms", ours: now.each(now.scrape), alternative: alone, theirs: first.each(first.scrape), atMost: 1}),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// window enters the CPU time of one window, a minute.
func (b *bench) window(ctx context.Context, s *station, into *load) error {
	used, err := s.during(func() error { return pause(ctx, b.extent.window) })
	if err != nil {
		return err
	}
	minutes := b.extent.window.Minutes()
	into.exporter = append(into.exporter, milliseconds(used.exporter)/minutes)
	into.server = append(into.server, milliseconds(used.server)/minutes)
	return nil
}

func (b *bench) loadOfTargets(ctx context.Context, count int) (got load, err error) {
	s, err := b.newStation(ctx, "", 0)
	if err != nil {
		return got, err
	}
	defer s.close(context.WithoutCancel(ctx))
	if err := b.startFleet(ctx, s, count); err != nil {
		return got, err
	}
	got.count = count
	client := newScraper()
	for range b.extent.rounds {
		if err := b.window(ctx, s, &got); err != nil {
			return got, err
		}
		var round []time.Duration
		for range 5 {
			took, _, err := client.scrape(ctx, s.url)
			if err != nil {
				return got, err
			}
			round = append(round, took)
			if err := pause(ctx, 120*time.Millisecond); err != nil { // so that the next gets a page of its own
				return got, err
			}
		}
		got.scrape = append(got.scrape, quantile(round, 0.5))
	}
	most, err := memoryMiB(s.exporter.PID(), "VmHWM")
	got.peak = samples{most}
	return got, err
}

// startFleet starts an exporter of so many targets on the station's server, and waits until it knows them all.
func (b *bench) startFleet(ctx context.Context, s *station, count int) error {
	var text strings.Builder
	text.WriteString("targets:\n")
	for n := range count {
		fmt.Fprintf(&text, "- {name: t%d, dsn: %q, locks: [{name: background-leader, key: plxs/1}]}\n", n, s.server.DSN("postgres"))
	}
	file := filepath.Join(b.folder, "fleet.yml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return err
	}
	return s.start(ctx, func(address string) (*exec.Cmd, error) {
		return exec.Command(b.exporter, "--config.file="+file, "--web.listen-address="+address), nil
	}, func(page string) bool { return strings.Count(page, "\nleader_lock_held{") == count })
}

// measureStandbys has many replicas ask for one lock at the default interval.
func measureStandbys(ctx context.Context, b *bench) error {
	var first *load
	for _, count := range b.extent.standbys {
		now, err := b.loadOfStandbys(ctx, count)
		if err != nil {
			return err
		}
		if first == nil {
			first = &now
		}
		err = b.add(row{
			what: fmt.Sprintf("CPU of the server a standby and minute, %d standbys", count), unit: "ms", ours: now.each(now.server),
			alternative: fmt.Sprintf("with %d", first.count), theirs: first.each(first.server), atMost: 1,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) loadOfStandbys(ctx context.Context, count int) (got load, err error) {
	s, err := b.newStation(ctx, "", 0) // its leader holds the lock
	if err != nil {
		return got, err
	}
	defer s.close(context.WithoutCancel(ctx))
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for range count {
		config, err := pgxpool.ParseConfig(s.server.DSN("postgres"))
		if err != nil {
			return got, err
		}
		config.MaxConns = 1
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return got, err
		}
		elector, err := leader.New(leader.Config{Pool: pool, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			pool.Close()
			return got, err
		}
		all.Go(func() {
			defer pool.Close()
			_ = elector.Run(ctx)
		})
		if err := pause(ctx, leader.DefaultCheckInterval/time.Duration(2*count)); err != nil { // replicas do not start in step
			return got, err
		}
	}
	got.count = count
	for range b.extent.rounds {
		if err := b.window(ctx, s, &got); err != nil {
			return got, err
		}
	}
	return got, nil
}
