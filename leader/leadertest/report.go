package leadertest

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what a history held and the worst that was measured in it, whether allowed or not.
type Report struct {
	CheckInterval, Slack time.Duration

	Terms      int
	Units      int
	Increments int
	Grants     int // of the lock, at the server
	Gaps       int // stretches without a holder in which a healthy replica was there; see H7

	WorstOverlap time.Duration // of two leaders in their own eyes, unless a pause explains it
	WorstGap     time.Duration // without a holder while a healthy replica was there
	WorstOrphan  time.Duration // of a lock kept by a replica that a fault had hit
	LongestTail  time.Duration // that a unit of work ran on after its term

	Faults map[Fault]Measured
}

// Measured is what was seen of one kind of fault. What a pause or another fault made longer is not in it.
type Measured struct {
	Count    int
	Demotion time.Duration // from the fault, or the resumption of a paused process, to the end of the term
	LockFree time.Duration // from the fault to the release of the lock
	Overlap  time.Duration // of two leaders that the fault explains
}

// String is a table of what was measured against what is allowed, in CheckIntervals.
func (r Report) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d terms, %d units, %d increments, %d grants; interval %v, slack %v\n",
		r.Terms, r.Units, r.Increments, r.Grants, r.CheckInterval, r.Slack)
	fmt.Fprintf(&text, "lock free with a healthy replica there: %d times, at worst %.2f of %d; work after its term: at worst %.2f\n",
		r.Gaps, r.intervals(r.WorstGap), nextAttempt, r.intervals(r.LongestTail))
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "fault\tcount\tdemotion\tlock free\toverlap")
	for _, f := range Faults() {
		if m, ok := r.Faults[f]; ok {
			b := f.Bounds()
			fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", f, m.Count,
				r.against(m.Demotion, b.Demote), r.against(m.LockFree, b.LockFree), r.against(m.Overlap, b.Overlap))
		}
	}
	_ = table.Flush() // a strings.Builder takes everything
	return text.String()
}

func (r Report) against(measured time.Duration, bound int) string {
	return fmt.Sprintf("%.2f of %d", r.intervals(measured), bound)
}

// intervals returns the duration in CheckIntervals.
func (r Report) intervals(d time.Duration) float64 { return float64(d) / float64(r.CheckInterval) }

// count fills in what needs no judgement.
func (c *checker) count() {
	c.report.Grants = len(c.grants.all)
	c.report.Increments = len(c.counter.increments)
	for _, g := range c.grants.all {
		c.namesHolders = c.namesHolders || g.replica != ""
	}
	for _, r := range c.replicas {
		c.report.Terms += len(r.terms.all)
		c.report.Units += len(r.units)
		for _, f := range r.faults.all {
			if f.kind != ServerRestart {
				c.measure(f.kind, Measured{Count: 1})
			}
		}
	}
	if len(c.down) > 0 {
		c.measure(ServerRestart, Measured{Count: len(c.down)})
	}
}

// measure adds to what the report says of the fault.
func (c *checker) measure(kind Fault, seen Measured) {
	if kind == "" {
		return
	}
	m := c.report.Faults[kind]
	c.report.Faults[kind] = Measured{
		Count:    m.Count + seen.Count,
		Demotion: max(m.Demotion, seen.Demotion),
		LockFree: max(m.LockFree, seen.LockFree),
		Overlap:  max(m.Overlap, seen.Overlap),
	}
}
