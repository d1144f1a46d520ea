package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// figures are the samples of a measurement by the exporter's name.
type figures map[string]samples

func (f figures) note(name string, value float64) { f[name] = append(f[name], value) }

// measureExporters compares the three exporters, with each number of locks on the server.
func measureExporters(ctx context.Context, b *bench) error {
	for _, locks := range b.extent.locks {
		if err := b.compareExporters(ctx, locks); err != nil {
			return fmt.Errorf("%d locks: %w", locks, err)
		}
	}
	return nil
}

// field is the three stations, and one where no exporter is.
type field struct {
	b        *bench
	locks    int
	stations []*station
	empty    *station
	floor    *station
}

// all is every station that was started.
func (f *field) all() (started []*station) {
	for _, s := range append(slices.Clone(f.stations), f.empty, f.floor) {
		if s != nil {
			started = append(started, s)
		}
	}
	return started
}

func (b *bench) compareExporters(ctx context.Context, locks int) error {
	f := &field{b: b, locks: locks}
	defer func() {
		for _, s := range f.all() {
			s.close(context.WithoutCancel(ctx))
		}
	}()
	var err error
	if f.empty, err = b.newStation(ctx, "", locks); err != nil {
		return err
	}
	if f.floor, err = b.newStation(ctx, floorName, locks); err != nil {
		return err
	}
	for _, name := range []string{ours, sqlRival, postgresRival} {
		s, err := b.newStation(ctx, name, locks)
		if err != nil {
			return err
		}
		f.stations = append(f.stations, s)
	}
	for _, measure := range []func(context.Context) error{f.minutes, f.oneClient, f.tenClients, f.apart, f.stalls} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// add enters a row for each alternative. The targets are ratios, those of sql_exporter and of postgres_exporter.
func (f *field) add(what, unit string, got figures, sqlAtMost, postgresAtMost float64) error {
	what = fmt.Sprintf("%s, %d locks", what, f.locks)
	return cmp.Or(
		f.b.add(row{what: what, unit: unit, ours: got[ours], alternative: sqlRival, theirs: got[sqlRival], atMost: sqlAtMost}),
		f.b.add(row{what: what, unit: unit, ours: got[ours], alternative: postgresRival, theirs: got[postgresRival], atMost: postgresAtMost}),
	)
}

func (f *field) oneClient(ctx context.Context) error {
	return cmp.Or(f.latencies(ctx, 1), f.smallestPage(ctx))
}

func (f *field) tenClients(ctx context.Context) error { return f.latencies(ctx, 10) }

// latencies measures scrapes that follow on each other at once, in turns, so that a noisy moment meets all.
func (f *field) latencies(ctx context.Context, clients int) error {
	median, tail, cpu := figures{}, figures{}, figures{}
	for range f.b.extent.rounds {
		for _, s := range f.stations {
			var took []time.Duration
			used, err := s.during(func() (err error) {
				took, err = f.b.scrapes(ctx, s.url, clients)
				return err
			})
			if err != nil || len(took) == 0 {
				return cmp.Or(err, errors.New("no scrape ended in time"))
			}
			median.note(s.name, quantile(took, 0.5))
			tail.note(s.name, quantile(took, 0.99))
			cpu.note(s.name, milliseconds(used.total())/float64(len(took)+clients))
		}
	}
	what := fmt.Sprintf("scrape, %d client(s)", clients)
	return cmp.Or(
		f.add(what+", p50", "ms", median, 0.5, 0.1),
		f.add(what+", p99", "ms", tail, 0, 0),
		f.add(what+", CPU of a scrape, exporter and server", "ms", cpu, 0, 0),
	)
}

// smallestPage measures our page of metrics beside one of ours that only says that the exporter runs: what HTTP itself takes.
func (f *field) smallestPage(ctx context.Context) error {
	var metrics, smallest samples
	url := f.stations[0].url
	for range f.b.extent.rounds {
		for url, median := range map[string]*samples{url: &metrics, strings.TrimSuffix(url, "metrics") + "-/healthy": &smallest} {
			took, err := f.b.scrapes(ctx, url, 1)
			if err != nil || len(took) == 0 {
				return cmp.Or(err, errors.New("no scrape ended in time"))
			}
			*median = append(*median, quantile(took, 0.5))
		}
	}
	what := fmt.Sprintf("scrape, 1 client(s), p50, %d locks", f.locks)
	return f.b.add(row{what: what, unit: "ms", ours: metrics, alternative: "its own /-/healthy", theirs: smallest})
}

// apart measures scrapes that are too far apart to share a page of ours, all exporters in turn.
func (f *field) apart(ctx context.Context) error {
	got := figures{}
	client := newScraper()
	for range f.b.extent.rounds {
		round := make(map[string][]time.Duration)
		for range max(3, f.b.extent.scrapes/25) {
			if err := pause(ctx, 120*time.Millisecond); err != nil {
				return err
			}
			for _, s := range f.stations {
				took, _, err := client.scrape(ctx, s.url)
				if err != nil {
					return err
				}
				round[s.name] = append(round[s.name], took)
			}
		}
		for name, took := range round {
			got.note(name, quantile(took, 0.5))
		}
	}
	return f.add("scrape each 120 ms (a page of its own), p50", "ms", got, 0, 0)
}

// spent is CPU time of an exporter and of its server.
type spent struct{ exporter, server time.Duration }

func (s spent) total() time.Duration { return s.exporter + s.server }

func (s *station) cpu() (now spent, err error) {
	if s.exporter != nil {
		if now.exporter, err = cpuOf(s.exporter.PID()); err != nil {
			return now, err
		}
	}
	now.server, err = cpuOfServer(s.postmaster)
	return now, err
}

// during returns what is spent while work is done.
func (s *station) during(work func() error) (used spent, err error) {
	before, err := s.cpu()
	if err != nil {
		return used, err
	}
	if err := work(); err != nil {
		return used, err
	}
	after, err := s.cpu()
	return spent{exporter: after.exporter - before.exporter, server: after.server - before.server}, err
}

// sessions returns how many the server has seen begin.
func (s *station) sessions(ctx context.Context) (n float64, err error) {
	err = s.admin.QueryRow(ctx, "SELECT sum(sessions)::float8 FROM pg_stat_database").Scan(&n)
	return n, err
}

const cpuAMinute = "CPU a minute at a scrape each 15 s, exporter and server"

// minutes measures what the exporters cost at a scrape each 15 s, all at the same time. What the empty station costs is no exporter's.
func (f *field) minutes(ctx context.Context) error {
	cpu, connections, memory, anonymous, share := figures{}, figures{}, figures{}, figures{}, samples{}
	for range f.b.extent.rounds {
		before, err := f.counters(ctx)
		if err != nil {
			return err
		}
		if err := f.scrapeFor(ctx, f.b.extent.minute); err != nil {
			return err
		}
		after, err := f.counters(ctx)
		if err != nil {
			return err
		}
		minutes := f.b.extent.minute.Minutes()
		idle := after[""].cpu.server - before[""].cpu.server
		for _, s := range append(slices.Clone(f.stations), f.floor) {
			a, z := before[s.name], after[s.name]
			cpu.note(s.name, milliseconds(max(0, z.cpu.total()-a.cpu.total()-idle))/minutes)
			connections.note(s.name, (z.sessions-a.sessions)/minutes)
			memory.note(s.name, z.peak)
			anonymous.note(s.name, z.anonymous)
		}
		share = append(share, after[ours].polls.shareSince(before[ours].polls))
	}
	err := cmp.Or(
		f.add(cpuAMinute, "ms", cpu, 1, 1),
		f.b.add(row{what: fmt.Sprintf("%s, %d locks", cpuAMinute, f.locks), unit: "ms", ours: cpu[ours], alternative: floorName, theirs: cpu[floorName]}),
		f.add("new connections a minute", "", connections, 0, 0),
		f.add("peak memory of the exporter", "MiB", memory, 1, 1),
		f.add("of which heap and stacks, at the end", "MiB", anonymous, 0, 0),
	)
	if err != nil {
		return err
	}
	return f.b.add(row{what: fmt.Sprintf("share of the time in pg_locks, %d locks", f.locks), unit: "%", ours: share, limit: 2})
}

// counters are what minutes compares.
type counters struct {
	cpu                       spent
	sessions, peak, anonymous float64
	polls                     polls
}

// polls are those of our exporter, until the end of the last one.
type polls struct{ seconds, end float64 }

// shareSince returns the percentage of time in polls, from the end of one to the end of another: a window that begins and ends anywhere
// would have one more or one less.
func (p polls) shareSince(earlier polls) float64 {
	if p.end <= earlier.end {
		return 0
	}
	return 100 * (p.seconds - earlier.seconds) / (p.end - earlier.end)
}

// pollsOn reads them from the exporter's page.
func pollsOn(page string) (p polls, err error) {
	if p.seconds, err = valueOf(page, "leader_exporter_poll_duration_seconds_sum"); err != nil {
		return p, err
	}
	p.end, err = valueOf(page, "leader_exporter_last_success_timestamp_seconds")
	return p, err
}

func (f *field) counters(ctx context.Context) (map[string]counters, error) {
	all := make(map[string]counters)
	for _, s := range f.all() {
		var now counters
		var err error
		if now.sessions, err = s.sessions(ctx); err != nil {
			return nil, err
		}
		if s.exporter != nil {
			if now.peak, err = memoryMiB(s.exporter.PID(), "VmHWM"); err != nil {
				return nil, err
			}
			if now.anonymous, err = memoryMiB(s.exporter.PID(), "RssAnon"); err != nil {
				return nil, err
			}
		}
		if s.name == ours {
			_, page, err := newScraper().scrape(ctx, s.url)
			if err != nil {
				return nil, err
			}
			if now.polls, err = pollsOn(page); err != nil {
				return nil, err
			}
		}
		if now.cpu, err = s.cpu(); err != nil {
			return nil, err
		}
		all[s.name] = now
	}
	return all, nil
}

// valueOf returns the value of the page's first sample of the name.
func valueOf(page, name string) (float64, error) {
	_, rest, ok := strings.Cut(page, "\n"+name)
	if !ok {
		return 0, fmt.Errorf("the page has no %s", name)
	}
	line, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
}

// scrapeFor scrapes each station every 15 s, the first time after 5.
func (f *field) scrapeFor(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	client := newScraper()
	for wait := 5 * time.Second; ; wait = 15 * time.Second {
		if err := pause(ctx, min(wait, time.Until(end))); err != nil {
			return err
		}
		if !time.Now().Before(end) {
			return nil
		}
		for _, s := range f.stations {
			if _, _, err := client.scrape(ctx, s.url); err != nil {
				return err
			}
		}
	}
}
