package alerts

import (
	"fmt"
	"strconv"
	"time"
)

// twoScrapes is for states that no healthy deployment is in: seen once they may be a scrape's bad luck, seen twice they are not.
func (w writer) twoScrapes() time.Duration {
	return wholeSeconds(w.ScrapeInterval + w.EvaluationInterval)
}

const twoScrapes = "Two scrapes have seen it: one scrape interval and one evaluation."

// heartbeatStale is about a session that the server should have ended: a leader asks once a check interval, and idle_session_timeout ends
// its session after 4. An orphan that it ends in time is a handover as any other.
func (w writer) heartbeatStale() rule {
	wait := w.twoScrapes()
	return rule{
		name:     "BackgroundLeaderHeartbeatStale",
		severity: warning,
		expr: []string{
			fmt.Sprintf("max by (%s) (%s) > %s", w.by("target", "datname"), w.lock("leader_lock_holder_heartbeat_age_seconds"),
				strconv.FormatFloat((5*w.CheckInterval).Seconds(), 'f', -1, 64)),
		},
		wait:    wait,
		because: "The server ends a silent leader's session after 4 check intervals; 5 is too old. " + twoScrapes,
		summary: "The session that holds the leader's lock of " + w.where + " is silent.",
		description: fmt.Sprintf("The holder of the lock in database {{ $labels.datname }} of target {{ $labels.target }}, %s, has sent nothing for {{ $value | humanizeDuration }}, "+
			"and has been too silent for at least %s. The server should have ended its session.", w.where, promDuration(wait)),
	}
}

func (w writer) foreignHolder() rule {
	wait := w.twoScrapes()
	return rule{
		name:     "BackgroundLeaderForeignHolder",
		severity: warning,
		expr: []string{
			fmt.Sprintf("max by (%s) (%s) == 1", w.by("target", "datname"), w.lock("leader_lock_foreign_holder")),
		},
		wait:    wait,
		because: twoScrapes,
		summary: "Something that is no replica holds the leader's lock of " + w.where + ".",
		description: fmt.Sprintf("For at least %s, {{ $value }} session with an application_name that is not expected has held the lock in database "+
			"{{ $labels.datname }} of target {{ $labels.target }}, %s. While it does, no replica leads.", promDuration(wait), w.where),
	}
}

// exporterDown misses an exporter by what it said, as its address, and the job's name, are the operator's. The replicas are the witness when it
// has been away for so long that its last words are forgotten, or never said any.
func (w writer) exporterDown() rule {
	wait := w.longestHandover()
	return rule{
		name:     "LeaderExporterDown",
		severity: warning,
		expr: []string{
			"(",
			fmt.Sprintf("  time() - max by (%s) (max_over_time(%s[%s]))", w.group,
				w.metric("leader_exporter_last_success_timestamp_seconds"), promDuration(lookBack)),
			"  or",
			fmt.Sprintf("  %d + 0 * count by (%s) (%s)", int(lookBack.Seconds()), w.group, w.metric("plexsphere_background_leader")),
			")",
			"unless",
			fmt.Sprintf("count by (%s) (%s)", w.group, w.metric("leader_lock_up")),
		},
		wait:    wait,
		because: "As long as for a leader that is missing; an exporter restarts faster than that.",
		summary: "No leader exporter reports on " + w.where + ".",
		description: fmt.Sprintf("For at least %s, no leader-exporter that watches %s has been scraped; its last look at the server was {{ $value | humanizeDuration }} ago or longer. "+
			"Claims of the replicas cannot be compared with the lock.", promDuration(wait), w.where),
	}
}

// targetDown comes before Missing does when a server is gone, so that it can inhibit: 3 check intervals and a timeout sooner. It stays until
// Missing must have gone: the exporter is back at once, a leader only with the next handover, and in between Missing would page.
func (w writer) targetDown() rule {
	wait := wholeSeconds(2*w.CheckInterval + w.ScrapeInterval + w.EvaluationInterval)
	return rule{
		name:     "LeaderExporterTargetDown",
		severity: critical,
		expr: []string{
			fmt.Sprintf("max by (%s) (%s) == 0", w.by("target"), w.metric("leader_lock_up")),
		},
		wait: wait,
		keep: w.longestHandover(),
		because: "2 check intervals, one scrape and one evaluation: a restart of the server is shorter, and Missing, which this inhibits, comes later. " +
			"It is kept for the longest handover, since Missing goes with the next leader.",
		summary: "The database server of " + w.where + " does not answer the leader exporter.",
		description: fmt.Sprintf("For at least %s, leader_lock_up has been {{ $value }} for target {{ $labels.target }}, %s. "+
			"Who holds the lock is unknown, and if the replicas cannot reach the server either, nobody leads.", promDuration(wait), w.where),
	}
}

func (w writer) onStandby() rule {
	wait := w.longestHandover()
	return rule{
		name:     "LeaderExporterOnStandby",
		severity: warning,
		expr: []string{
			fmt.Sprintf("max by (%s) (%s) == 1", w.by("target"), w.metric("leader_lock_database_in_recovery")),
		},
		wait:    wait,
		because: "As long as for a leader that is missing: a server that is promoted leaves recovery sooner.",
		summary: "The leader exporter watches a hot standby of " + w.where + ".",
		description: fmt.Sprintf("For at least %s, leader_lock_database_in_recovery has been {{ $value }} for target {{ $labels.target }}, %s. "+
			"A standby knows nothing of the primary's locks, so nobody watches the leader's.", promDuration(wait), w.where),
	}
}
