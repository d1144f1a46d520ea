package alerts

import (
	"fmt"
	"time"
)

// failingWindow is 5 minutes at the default check interval, and never so short that a handful of samples decides.
func (w writer) failingWindow() time.Duration {
	return wholeSeconds(max(60*w.CheckInterval, 20*w.ScrapeInterval))
}

// passes is the number of passes of each loop within the range that ended so, over all replicas: the leader may have changed.
func (w writer) passes(result, window string) string {
	return fmt.Sprintf("sum by (%s) (max by (%s) (increase(%s[%s])))", w.by("loop"), w.by("instance", "loop", "result"),
		w.metric("plexsphere_background_loop_ticks_total", result), window)
}

// loopFailing has an arm for loops that tick within the window, and one for those that tick once in an hour or two, of which the window
// sees one pass at most. One failed pass alone never fires: it is out of the window when `for` is over.
func (w writer) loopFailing() rule {
	window := promDuration(w.failingWindow())
	failed, succeeded := `result=~"error|panic"`, `result="ok"`
	return rule{
		name:     "BackgroundLoopFailing",
		severity: warning,
		expr: []string{
			w.passes(failed, window),
			">",
			w.passes(succeeded, window),
			"or",
			w.passes(failed, promDuration(lookBack)) + " > 1.5",
			"and",
			w.passes(succeeded, promDuration(lookBack)) + " == 0",
		},
		wait:    w.failingWindow(),
		because: "60 check intervals, at least 20 scrapes, for the window and again for the wait: one failed pass is over by then.",
		summary: "The background loop {{ $labels.loop }} of " + w.where + " fails.",
		description: fmt.Sprintf(`For at least %s, more passes of the loop {{ $labels.loop }} of %s have failed than succeeded; by the last count {{ $value | printf "%%.0f" }} failed.`,
			window, w.where),
	}
}

// loopStalled is about a pass that hangs. A loop that paces itself runs all the time and has no ticks, so the second half keeps it out. The
// ticks are looked for over four scrapes, so that one that was lost does not hide the loop.
func (w writer) loopStalled() rule {
	wait := wholeSeconds(max(180*w.CheckInterval, 60*w.ScrapeInterval))
	labels := w.by("instance", "loop")
	return rule{
		name:     "BackgroundLoopStalled",
		severity: warning,
		expr: []string{
			fmt.Sprintf("max by (%s) (%s) == 1", labels, w.metric("plexsphere_background_loop_running")),
			"and",
			fmt.Sprintf("max by (%s) (increase(%s[%s])) == 0", labels, w.metric("plexsphere_background_loop_ticks_total"),
				promDuration(wholeSeconds(4*w.ScrapeInterval))),
		},
		wait:    wait,
		because: "180 check intervals, at least 60 scrapes: no pass of a sweep takes so long.",
		summary: "A pass of the background loop {{ $labels.loop }} of " + w.where + " hangs.",
		description: fmt.Sprintf("For at least %s, {{ $value }} pass of the loop {{ $labels.loop }} has been running on {{ $labels.instance }}, %s, and none has ended.",
			promDuration(wait), w.where),
	}
}

func (w writer) workerExhausted() rule {
	wait := w.twoScrapes()
	labels := w.by("instance", "worker")
	return rule{
		name:     "BackgroundWorkerExhausted",
		severity: warning,
		expr: []string{
			fmt.Sprintf("max by (%s) (%s) == 1", labels, w.metric("plexsphere_worker_exhausted")),
		},
		wait:    wait,
		because: twoScrapes,
		summary: "The worker {{ $labels.worker }} of " + w.where + " has given up.",
		description: fmt.Sprintf("For at least %s, plexsphere_worker_exhausted has been {{ $value }} for the worker {{ $labels.worker }} on {{ $labels.instance }}, %s. "+
			"It has spent its restarts and stays down until its process is started again.", promDuration(wait), w.where),
	}
}
