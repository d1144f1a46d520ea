package alerts

import (
	"fmt"
	"time"
)

// longestHandover is how long Prometheus may see no claim at all although the election does its work. A leader that loses
// its power is followed after 5 check intervals (docs/leader.md, Bounds). The new claim is scraped up to a scrape interval
// later, by a scrape that may take its timeout, and an evaluation may come just before it.
func (w writer) longestHandover() time.Duration {
	return wholeSeconds(5*w.CheckInterval + w.ScrapeInterval + w.ScrapeTimeout + w.EvaluationInterval)
}

const longestHandover = "The next leader comes within 5 check intervals. One scrape, with its timeout, and one evaluation on top."

// longestOverlap is how long Prometheus may see two claims, or a claim on a free lock, although every replica does as it should. A leader
// that is cut off believes in itself for 2 check intervals. Its last 1 stays until its next scrape, which may fail only after
// the timeout. And two handovers in a row, as in a rolling restart, may each leave a 1 behind for a scrape interval: hence 2.1 of them.
func (w writer) longestOverlap() time.Duration {
	cutOff := 2*w.CheckInterval + w.ScrapeInterval + w.ScrapeTimeout
	twoHandovers := w.ScrapeInterval * 21 / 10
	return wholeSeconds(max(cutOff, twoHandovers) + w.EvaluationInterval)
}

const longestOverlap = "A leader that is cut off demotes within 2 check intervals, and its 1 stays until a scrape says otherwise or fails. " +
	"Two handovers in a row: 2.1 scrape intervals. One evaluation on top."

func (w writer) missing() rule {
	wait := w.longestHandover()
	return rule{
		name:     "BackgroundLeaderMissing",
		severity: critical,
		expr: []string{
			w.claims() + " == 0",
			"unless",
			w.held() + " == 1",
		},
		wait:    wait,
		because: longestHandover,
		summary: "Nobody leads the background work of " + w.where + ".",
		description: fmt.Sprintf("For at least %s, {{ $value }} replicas of %s have claimed to lead, and no session was seen to hold the lock. "+
			"Background work stands still.", promDuration(wait), w.where),
	}
}

func (w writer) multiple() rule {
	wait := w.longestOverlap()
	return rule{
		name:     "BackgroundLeaderMultiple",
		severity: critical,
		expr:     []string{w.claims() + " > 1"},
		wait:     wait,
		because:  longestOverlap,
		summary:  "Several replicas lead the background work of " + w.where + ".",
		description: fmt.Sprintf("For at least %s, {{ $value }} replicas of %s have claimed to lead at once. Background work may be done twice.",
			promDuration(wait), w.where),
	}
}

func (w writer) unclaimed() rule {
	wait := w.longestHandover()
	return rule{
		name:     "BackgroundLeaderUnclaimed",
		severity: critical,
		expr: []string{
			w.claims() + " == 0",
			"and",
			w.held() + " == 1",
		},
		wait:    wait,
		because: longestHandover + " A lock that a lost leader left behind is free after 4.",
		summary: "The leader's lock of " + w.where + " is held by a session that no replica claims.",
		description: fmt.Sprintf("For at least %s, a session has held the lock while {{ $value }} of the replicas of %s that Prometheus scrapes claimed to lead. "+
			"Background work stands still, unless the leader is a replica that is not scraped.", promDuration(wait), w.where),
	}
}

func (w writer) phantom() rule {
	wait := w.longestOverlap()
	return rule{
		name:     "BackgroundLeaderPhantom",
		severity: critical,
		expr: []string{
			w.claims() + " > 0",
			"and",
			w.held() + " == 0",
		},
		wait:    wait,
		because: longestOverlap,
		summary: "A replica of " + w.where + " claims to lead without the lock.",
		description: fmt.Sprintf("For at least %s, {{ $value }} of the replicas of %s have claimed to lead while the exporter saw the lock free. "+
			"A second leader may begin at any moment, or the exporter watches another database.", promDuration(wait), w.where),
	}
}

// flappingWindow is 20 minutes at the default check interval, and never so short that a handful of samples decides.
func (w writer) flappingWindow() time.Duration {
	return wholeSeconds(max(240*w.CheckInterval, 20*w.ScrapeInterval))
}

// flapping counts terms by the exporter's counter, which misses none between two scrapes. When the exporter restarts, the counter finds
// the leader that is there and counts it as its first: one reset, one term too many.
//
// A rolling restart hands over once a replica at most, so N changes are normal, and one more happens. The half keeps what increase() adds
// at the edges of the window from making a change. N is the most that were there at once, or scaling down would look like flapping.
func (w writer) flapping() rule {
	window := promDuration(w.flappingWindow())
	terms := w.lock("leader_lock_terms_total")
	return rule{
		name:     "BackgroundLeaderFlapping",
		severity: warning,
		expr: []string{
			fmt.Sprintf("max by (%s) (", w.group),
			fmt.Sprintf("  increase(%s[%s])", terms, window),
			"  -",
			fmt.Sprintf("  resets(%s[%s])", terms, window),
			")",
			">",
			fmt.Sprintf("1.5 + max_over_time(count by (%s) (max by (%s) (%s))[%s:%s])", w.group, w.by("instance"),
				w.metric("plexsphere_background_leader"), window, promDuration(w.ScrapeInterval)),
		},
		because: "240 check intervals, at least 20 scrapes. A rolling restart changes the leader once a replica; two changes more are no restart.",
		summary: "Leadership of " + w.where + " changes too often.",
		description: fmt.Sprintf(`Within the last %s, {{ $value | printf "%%.0f" }} terms began in %s, more than a rolling restart explains. `+
			"Each handover interrupts background work.", window, w.where),
	}
}

// metricsAbsent needs a witness that the deployment exists: the exporter that watches its lock, or the replicas' own series of the last
// hours. Without one nothing would be left that carries the labels of the group. The first arm comes first for its value.
func (w writer) metricsAbsent() rule {
	wait := 2 * w.longestHandover()
	gauge := w.metric("plexsphere_background_leader")
	return rule{
		name:     "BackgroundLeaderMetricsAbsent",
		severity: critical,
		expr: []string{
			"(",
			fmt.Sprintf("  count by (%s) (count by (%s) (count_over_time(%s[%s])))", w.group, w.by("instance"), gauge, promDuration(lookBack)),
			"  or",
			fmt.Sprintf("  0 * max by (%s) (%s)", w.group, w.lock("leader_lock_terms_total")),
			")",
			"unless",
			fmt.Sprintf("count by (%s) (%s)", w.group, gauge),
		},
		wait:    wait,
		because: "Twice the longest handover: replicas that are all replaced at once are away for a while.",
		summary: "No replica of " + w.where + " reports whether it leads.",
		description: fmt.Sprintf("For at least %s, no replica of %s has been scraped; {{ $value }} were within the last %s. "+
			"Nobody can tell whether background work is done.", promDuration(wait), w.where, promDuration(lookBack)),
	}
}
