// Package collector turns lockwatch snapshots into Prometheus metrics.
//
// One Collect takes one snapshot of each target and emits constant metrics from it, so the samples of a scrape belong
// together and a scrape never waits for a database. While a target is down, or its last poll is older than lockwatch.Snapshot.Fresh allows, only
// leader_lock_up 0, the counters and the poll's own metrics are there: what is not known is absent, never 0 and never the
// last holder. A Collector is safe from any goroutine.
package collector

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plexsphere/leader-exporter/lockwatch"
)

// Source tells what is known of a target without waiting. *lockwatch.Watcher is one.
type Source interface {
	Snapshot() lockwatch.Snapshot
}

// Target is what is watched under one value of the label target.
type Target struct {
	Name   string
	Labels map[string]string // on all of its series; a name that another target has and this one lacks is empty there
	Source Source
}

// Collector is a prometheus.Collector over the targets it was made with.
type Collector struct {
	targets []labelled

	up, inRecovery                            *prometheus.Desc
	held, holders, waiters                    *prometheus.Desc
	holderInfo, holderPID, holderBackendStart *prometheus.Desc
	termStart, heartbeatAge, holderVisible    *prometheus.Desc
	foreignHolder                             *prometheus.Desc
	terms, unheld, multipleHolders, handover  *prometheus.Desc
	pollDuration, pollFailures, pollInterval  *prometheus.Desc
	lastSuccess, serverLocks                  *prometheus.Desc
}

// labelled is a target with the values of its first labels: the static ones and its name.
type labelled struct {
	source Source
	values []string
}

// New returns a Collector of the targets, whose names must differ. The names of static labels must be valid, and none that the
// metrics have themselves.
func New(targets []Target) *Collector {
	var names []string
	for _, t := range targets {
		names = slices.AppendSeq(names, maps.Keys(t.Labels))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	c := newDescs(names)
	for _, t := range targets {
		values := make([]string, len(names), len(names)+1)
		for i, name := range names {
			values[i] = t.Labels[name]
		}
		c.targets = append(c.targets, labelled{t.Source, append(values, t.Name)})
	}
	return c
}

// newDescs returns a Collector without targets, whose metrics have these labels first.
func newDescs(static []string) *Collector {
	target := slices.Concat(static, []string{"target"})
	lock := slices.Concat(target, []string{"datname", "lock"})
	desc := func(name, help string, labels []string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, slices.Concat(labels, more), nil)
	}
	return &Collector{
		up:         desc("leader_lock_up", "1 if the last poll of the target was answered, else 0.", target),
		inRecovery: desc("leader_lock_database_in_recovery", "1 if the target is a hot standby, which tells nothing about the primary's locks.", target),

		held:               desc("leader_lock_held", "1 if a session holds the lock exclusively, 0 if none does. Absent while unknown.", lock),
		holders:            desc("leader_lock_holders", "Sessions to which the lock is granted.", lock),
		waiters:            desc("leader_lock_waiters", "Sessions that wait for the lock.", lock),
		holderInfo:         desc("leader_lock_holder_info", "1, with what the server tells of the exclusive holder.", lock, "client_addr", "application_name", "usename"),
		holderPID:          desc("leader_lock_holder_pid", "Backend pid of the exclusive holder.", lock),
		holderBackendStart: desc("leader_lock_holder_backend_start_timestamp_seconds", "When the holder's backend started, by the server's clock.", lock),
		termStart:          desc("leader_lock_term_start_timestamp_seconds", "When a poll first saw the present term, by the server's clock.", lock),
		heartbeatAge:       desc("leader_lock_holder_heartbeat_age_seconds", "Time since the holder's last statement, by the server's clock.", lock),
		holderVisible:      desc("leader_lock_holder_visible", "1 if the role sees the holder's details, 0 if it lacks pg_read_all_stats.", lock),
		foreignHolder:      desc("leader_lock_foreign_holder", "1 if the holder's application_name matches none of those expected, else 0. Absent where none is expected.", lock),
		terms:              desc("leader_lock_terms_total", "Terms seen by the polls, the one found at the start included.", lock),
		unheld:             desc("leader_lock_unheld_seconds_total", "Time in which the polls saw no exclusive holder.", lock),
		multipleHolders:    desc("leader_lock_multiple_holders_seconds_total", "Time in which the polls saw more than one session with the lock.", lock),
		handover:           desc("leader_lock_handover_duration_seconds", "Time from the end of a term to the start of the next, as seen by the polls.", lock),

		pollDuration: desc("leader_exporter_poll_duration_seconds", "How long polls of the target took, answered or not.", target),
		pollFailures: desc("leader_exporter_poll_failures_total", "Polls of the target that failed, by reason.", target, "reason"),
		pollInterval: desc("leader_exporter_poll_interval_seconds", "Time between two polls of the target.", target),
		lastSuccess:  desc("leader_exporter_last_success_timestamp_seconds", "When the last answered poll of the target ended. Absent before the first.", target),
		serverLocks:  desc("leader_exporter_server_locks", "Rows of pg_locks on the target.", target),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		c.up, c.inRecovery, c.held, c.holders, c.waiters, c.holderInfo, c.holderPID, c.holderBackendStart, c.termStart,
		c.heartbeatAge, c.holderVisible, c.foreignHolder, c.terms, c.unheld, c.multipleHolders, c.handover, c.pollDuration, c.pollFailures,
		c.pollInterval, c.lastSuccess, c.serverLocks,
	} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	for _, target := range c.targets {
		snapshot := target.source.Snapshot()
		known := snapshot.Fresh(now)
		emit := emitter{ch: ch, labels: target.values}
		c.collectTarget(emit, snapshot, known)
		for _, state := range snapshot.Locks {
			emit := emitter{ch: ch, labels: slices.Concat(target.values, []string{state.Datname, state.Lock})}
			c.collectCounters(emit, state)
			if known && state.Known {
				c.collectLock(emit, state)
			}
		}
	}
}

// collectTarget emits what concerns the target as a whole.
func (c *Collector) collectTarget(emit emitter, snapshot lockwatch.Snapshot, known bool) {
	emit.gauge(c.up, boolean(known))
	emit.gauge(c.pollInterval, snapshot.Interval.Seconds())
	emit.histogram(c.pollDuration, snapshot.PollDuration)
	for reason, count := range snapshot.Failures {
		emit.counter(c.pollFailures, float64(count), string(reason))
	}
	if !snapshot.LastSuccess.IsZero() {
		emit.gauge(c.lastSuccess, unixSeconds(snapshot.LastSuccess))
	}
	if known {
		emit.gauge(c.inRecovery, boolean(snapshot.InRecovery))
		emit.gauge(c.serverLocks, float64(snapshot.ServerLocks))
	}
}

// collectCounters emits what stays true while the target is down.
func (c *Collector) collectCounters(emit emitter, state lockwatch.LockState) {
	emit.counter(c.terms, float64(state.Terms))
	emit.counter(c.unheld, state.Unheld.Seconds())
	emit.counter(c.multipleHolders, state.MultipleHolders.Seconds())
	emit.histogram(c.handover, state.Handover)
}

// collectLock emits who holds the lock at this moment.
func (c *Collector) collectLock(emit emitter, state lockwatch.LockState) {
	emit.gauge(c.held, boolean(state.Holder != nil))
	emit.gauge(c.holders, float64(state.Holders))
	emit.gauge(c.waiters, float64(state.Waiters))
	holder := state.Holder
	if holder == nil {
		return
	}
	emit.gauge(c.holderInfo, 1, holder.ClientAddr, holder.ApplicationName, holder.Usename)
	emit.gauge(c.holderPID, float64(holder.PID))
	emit.gauge(c.termStart, unixSeconds(holder.TermStart))
	emit.gauge(c.holderVisible, boolean(holder.Visible))
	if state.Expected {
		emit.gauge(c.foreignHolder, boolean(holder.Foreign))
	}
	if !holder.BackendStart.IsZero() {
		emit.gauge(c.holderBackendStart, unixSeconds(holder.BackendStart))
	}
	if holder.HeartbeatAge >= 0 {
		emit.gauge(c.heartbeatAge, holder.HeartbeatAge.Seconds())
	}
}

// emitter sends constant metrics that share their first labels.
type emitter struct {
	ch     chan<- prometheus.Metric
	labels []string
}

func (e emitter) gauge(desc *prometheus.Desc, value float64, more ...string) {
	e.send(desc, prometheus.GaugeValue, value, more)
}

func (e emitter) counter(desc *prometheus.Desc, value float64, more ...string) {
	e.send(desc, prometheus.CounterValue, value, more)
}

func (e emitter) send(desc *prometheus.Desc, kind prometheus.ValueType, value float64, more []string) {
	labels := slices.Concat(e.labels, more)
	e.ch <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
}

func (e emitter) histogram(desc *prometheus.Desc, h lockwatch.Histogram) {
	e.ch <- prometheus.MustNewConstHistogram(desc, h.Count, h.Sum, h.Buckets, e.labels...)
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// unixSeconds keeps the fraction exact where one division of all nanoseconds would not.
func unixSeconds(t time.Time) float64 { return float64(t.Unix()) + float64(t.Nanosecond())/1e9 }
