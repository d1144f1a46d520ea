package leadertest

import (
	"cmp"
	"fmt"
	"slices"
)

// String names the session.
func (g grant) String() string {
	if g.replica == "" {
		return fmt.Sprintf("backend %d", g.pid)
	}
	return fmt.Sprintf("backend %d of %s", g.pid, g.replica)
}

// holders is H1.
func (c *checker) holders() {
	for one, two := range c.grants.pairs() {
		if both := one.common(two.span); both.length() > c.slack {
			c.violated("H1", both.from, "%v and %v hold the lock both, from %v to %v", one, two, both.from, both.to)
		}
	}
}

// orphans is H6.
func (c *checker) orphans(r *replica) {
	for _, f := range r.faults.all {
		reach := f.from
		if f.kind.heals() {
			reach = f.to // a statement that was on its way may still get the lock
		}
		for g := range c.grants.during(span{f.from, reach}) {
			mine := g.replica == r.name
			if f.pid != 0 {
				mine = g.pid == f.pid
			}
			if mine {
				c.orphan(r, f, g)
			}
		}
	}
}

func (c *checker) orphan(r *replica, f fault, g grant) {
	switch {
	case f.kind.heals():
		f.from = max(f.from, g.from)
	case g.from >= f.from:
		return
	}
	bound := f.kind.Bounds().LockFree
	limit := f.from + c.intervals(bound)
	if f.kind.heals() && f.to <= limit+c.slack && f.to < g.to {
		return
	}
	if bound == 0 && !f.kind.endsSession() { // the client frees the lock, if it can
		for other := range r.faults.during(span{f.from, limit + c.slack}) {
			limit = max(limit, other.from+c.intervals(other.kind.Bounds().LockFree))
		}
	}
	kept := g.to - f.from
	if limit == f.from+c.intervals(bound) {
		c.measure(f.kind, Measured{LockFree: kept})
	}
	c.report.WorstOrphan = max(c.report.WorstOrphan, kept)
	if g.to > limit+c.slack {
		c.violated("H6", limit, "%v kept the lock until %v after the fault %q of %s at %v: %s", g, g.to, f.kind, r.name, f.from, c.size(kept, bound))
	}
}

// claims is H9.
func (c *checker) claims(r *replica) {
	if !c.namesHolders {
		return
	}
	for _, t := range r.terms.all {
		if !c.shows(r, c.around(t.from)) && t.length() >= c.slack && !c.lostUnnoticed(r, t) {
			c.violated("H9", t.from, "%s began a term at %v while the server did not show it the lock", r.name, t.from)
		}
	}
}

// lostUnnoticed reports whether a fault ended the session after the grant and before the term began, or so soon after that
// nobody saw the grant.
func (c *checker) lostUnnoticed(r *replica, t *term) bool {
	longest := c.intervals(Isolated.Bounds().Demote)
	for f := range r.faults.during(span{t.from - longest - c.slack, t.from + c.slack}) {
		if !f.kind.endsSession() || c.demoteBy(r, f)+c.slack < t.from {
			continue
		}
		if c.unseen(t, f) || f.from <= t.from && c.shows(r, c.around(f.from)) {
			return true
		}
	}
	return false
}

// gaps is H7. A term that begins proves a hold, even one that was too short to be seen; whether it lies is for H9.
func (c *checker) gaps() {
	busy := slices.Clone(c.down)
	for _, r := range c.replicas {
		for _, t := range r.terms.all {
			busy = append(busy, span{t.from, t.from + c.slack})
		}
	}
	for _, g := range c.grants.all {
		busy = append(busy, g.span)
	}
	sortSpans(busy)
	gaps := span{0, c.end}.without(busy)
	worst := make([]span, len(gaps))
	watchers := make([]*replica, len(gaps))
	for _, r := range c.replicas {
		healthy := newSpans(c.healthy(r))
		for i, gap := range gaps {
			for h := range healthy.during(gap) {
				if watched := h.common(gap); watched.length() > worst[i].length() {
					worst[i], watchers[i] = watched, r
				}
			}
		}
	}
	for i, gap := range gaps {
		length := worst[i].length()
		if length > 0 {
			c.report.Gaps++
			c.report.WorstGap = max(c.report.WorstGap, length)
		}
		if length > c.intervals(nextAttempt)+c.slack {
			c.violated("H7", worst[i].from, "the lock was free from %v to %v, and %s healthy from %v to %v: %s",
				gap.from, gap.to, watchers[i].name, worst[i].from, worst[i].to, c.size(length, nextAttempt))
		}
	}
}

// healthy returns when the replica can be expected to ask for the lock within one interval.
func (c *checker) healthy(r *replica) []span {
	settle := c.intervals(nextAttempt)
	var away []span
	stopped := moment(0)
	for _, run := range r.runs {
		away = append(away, span{stopped, run.from + settle})
		stopped = run.to
	}
	if stopped < c.end || len(r.runs) == 0 {
		away = append(away, span{stopped, c.end})
	}
	for _, f := range r.faults.all {
		if f.kind != ServerRestart {
			away = append(away, span{f.from, f.to + settle})
			continue
		}
		for t := range r.terms.during(f.start()) {
			if t.from <= f.from {
				away = append(away, span{f.from, f.from + settle})
			}
		}
	}
	sortSpans(away)
	return span{0, c.end}.without(away)
}

func sortSpans(all []span) {
	slices.SortFunc(all, func(s, o span) int { return cmp.Compare(s.from, o.from) })
}
