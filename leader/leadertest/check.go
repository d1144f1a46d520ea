package leadertest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/plexsphere/leader-exporter/leader"
)

// Config says what a history is judged by.
type Config struct {
	// CheckInterval is that of the electors. Zero or negative means leader.DefaultCheckInterval.
	CheckInterval time.Duration
	// Slack is what comes on top of each bound: the time that networks, schedulers and watchers take, and by which moments
	// recorded in different processes may be wrong. Zero or negative means none, which is right inside a bubble.
	Slack time.Duration
}

// Violation is one promise that the history shows broken.
type Violation struct {
	Rule string // "H1" to "H9", or "H0" for a history that makes no sense; see History.Check
	At   time.Time
	Text string // names replicas, figures, and moments as the time since the first event
}

// Error returns all of it.
func (v *Violation) Error() string {
	return fmt.Sprintf("leadertest: %s at %s: %s", v.Rule, v.At.Format(time.RFC3339Nano), v.Text)
}

// mostOfARule is how many violations of one rule are listed. What follows from one mistake may come a million times.
const mostOfARule = 10

// checker judges one timeline.
type checker struct {
	*timeline
	interval   time.Duration
	slack      moment
	report     Report
	violations []*Violation
	broken     map[string]int // violations by rule

	namesHolders bool // a grant names its replica
}

// Check judges the history. The error is nil, or joins a *Violation for each broken promise: at most ten of one rule, and one
// that counts the rest of it. Of a rule whose events were not recorded nothing is said; the Report counts what there was. A
// bound is kept at the bound, and the moments of one event decide nothing that their order would have to decide.
//
//   - H1: at most one session holds the lock at the server.
//   - H2: the fences of terms strictly rise in the order in which the terms began.
//   - H3: two replicas lead at once only when a fault that ends sessions has hit the older leader or the server, and only
//     until that fault's Overlap. Of two terms that began within the slack either may be the older. A replica
//     that comes out of a pause, silent for three intervals or more, may find itself leading for one interval more: whether it
//     begins work then is H4's.
//   - H4: a unit of work begins within a term of its replica and under the fence of that term; and not later than three
//     intervals after the replica was paused or cut off, unless that is over and the term outlived it: at its end the server
//     showed the lock for the replica or, where it names no holders, it was shorter than LockFree.
//   - H5: a fault ends the term of the replica that it hits within Demote. A partition does so only if it lasts as long, a
//     pause only if it is longer than LockFree, which is when the server ends the session. A paused process is given until
//     one interval after its resumption.
//   - H6: no session of a replica that a fault hits holds the lock longer than LockFree, if the fault lasts as long. A replica
//     that stops or dies while it is cut off or paused has the LockFree of that.
//   - H7: the lock is free for at most one interval while the server answers and a healthy replica takes part. A replica is
//     healthy from one interval after its start, or after the end of its last fault, because a check that was under way
//     then has to time out first; the leader of a server that goes down counts as hit at that moment.
//   - H8: the counter was set to each value from 1 to what it held in the end, to each once. A value may be missing when an
//     attempt to set it has no known outcome.
//   - H9: a term begins only while the server shows the lock for its replica, or has shown it when a fault ended the session
//     unnoticed, within the Demote of that fault. With a slack, the server may have shown it for less than that, unseen.
//   - H0: the history makes sense: its kinds and faults exist, a fault begins before it ends, and once.
//
// It takes O(n log n) for n events, and does not change the history.
func (h *History) Check(config Config) (Report, error) {
	h.mu.Lock()
	events, err := h.events, h.sinkErr // later events do not touch the former ones
	h.mu.Unlock()
	c := &checker{
		timeline: newTimeline(events),
		interval: config.CheckInterval,
		slack:    max(config.Slack, 0),
		broken:   make(map[string]int),
	}
	if c.interval <= 0 {
		c.interval = leader.DefaultCheckInterval
	}
	c.report = Report{CheckInterval: c.interval, Slack: c.slack, Faults: make(map[Fault]Measured)}
	c.judge()
	return c.report, errors.Join(err, c.err())
}

func (c *checker) judge() {
	for _, f := range c.flaws {
		c.violated("H0", f.at, "%s", f.text)
	}
	c.count()
	for _, r := range c.replicas {
		c.units(r) // first, because units tell the fences of their terms
		c.demotions(r)
	}
	c.fences()
	c.overlaps()
	c.increments()
	if len(c.grants.all) == 0 {
		return
	}
	c.holders()
	for _, r := range c.replicas {
		c.orphans(r)
		c.claims(r)
	}
	c.gaps()
}

// err joins the violations in the order of their moments.
func (c *checker) err() error {
	for rule, count := range c.broken {
		if more := count - mostOfARule; more > 0 {
			c.violations = append(c.violations, &Violation{Rule: rule, At: c.time(c.end), Text: fmt.Sprintf("%d more violations", more)})
		}
	}
	slices.SortStableFunc(c.violations, func(v, w *Violation) int {
		return cmp.Or(v.At.Compare(w.At), cmp.Compare(v.Rule, w.Rule))
	})
	errs := make([]error, len(c.violations))
	for i, v := range c.violations {
		errs[i] = v
	}
	return errors.Join(errs...)
}

func (c *checker) violated(rule string, at moment, format string, args ...any) {
	c.broken[rule]++
	if c.broken[rule] <= mostOfARule {
		c.violations = append(c.violations, &Violation{Rule: rule, At: c.time(at), Text: fmt.Sprintf(format, args...)})
	}
}

func (c *checker) time(m moment) time.Time { return c.start.Add(m) }

// intervals returns the duration of n CheckIntervals.
func (c *checker) intervals(n int) moment { return moment(n) * c.interval }

// size says how long a duration is, against a bound.
func (c *checker) size(d moment, bound int) string {
	return fmt.Sprintf("%v, that is %.4g intervals of at most %d", d, c.report.intervals(d), bound)
}
