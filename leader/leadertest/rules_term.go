package leadertest

import (
	"cmp"
	"fmt"
	"slices"
)

// units is H4. On the way each unit tells its term the fence.
func (c *checker) units(r *replica) {
	terms := r.terms.all
	first := 0
	var last *term
	var lost *fault // of last
	for _, u := range r.units {
		for first < len(terms) && terms[first].to+c.slack < u.from {
			first++
		}
		t, other := c.termOf(terms[first:], u)
		switch {
		case t != nil:
			t.fence = max(t.fence, u.fence)
			c.report.LongestTail = max(c.report.LongestTail, u.to-t.to)
			if t != last {
				last, lost = t, c.lostBy(r, t)
			}
			c.staleness(r, t, u, lost)
		case other != nil:
			c.violated("H4", u.from, "%s began a unit of work at %v under fence %d, in its term of fence %d", r.name, u.from, u.fence, other.fence)
		case first > 0:
			c.violated("H4", u.from, "%s began a unit of work at %v, outside its terms: %v after the last one ended",
				r.name, u.from, u.from-terms[first-1].to)
		default:
			c.violated("H4", u.from, "%s began a unit of work at %v, before its first term", r.name, u.from)
		}
	}
}

// termOf returns the term to which the unit belongs, or else one at that moment whose fence is another. Among terms that
// touch within the slack it prefers the one with the unit's fence, then the one around the unit, then the later one.
func (c *checker) termOf(terms []*term, u unit) (of, other *term) {
	best := 0
	for _, t := range terms {
		if t.from-c.slack > u.from {
			break
		}
		rank := 1
		switch {
		case t.fence == 0 || u.fence == 0:
			if t.holds(u.from) {
				rank = 2
			}
		case t.fence == u.fence:
			rank = 3
		default:
			other = t
			continue
		}
		if rank >= best {
			of, best = t, rank
		}
	}
	return of, other
}

// lostBy returns the first pause or cut in the term that the term did not outlive, if there is one.
func (c *checker) lostBy(r *replica, t *term) *fault {
	var first *fault
	for f := range r.faults.during(t.span) {
		outlived := f.kind.heals() && f.length() < c.intervals(f.kind.Bounds().LockFree)
		if c.namesHolders {
			outlived = c.shows(r, c.around(f.to))
		}
		if f.kind.silences() && f.from >= t.from && !outlived {
			first = &f
		}
	}
	return first
}

// staleness is H4 for a unit in a term that lost may have ended, and for one during a pause or a cut.
func (c *checker) staleness(r *replica, t *term, u unit, lost *fault) {
	if lost == nil || !c.stale(*lost, u) {
		lost = nil
		for f := range r.faults.during(u.start()) {
			if f.kind.silences() && f.from >= t.from && f.to > u.from+c.slack && c.stale(f, u) {
				lost = &f
			}
		}
	}
	if lost != nil {
		c.violated("H4", u.from, "%s began a unit of work at %v in its old term, %v after the fault %q at %v",
			r.name, u.from, u.from-lost.from, lost.kind, lost.from)
	}
}

func (c *checker) stale(f fault, u unit) bool { return u.from > f.from+c.intervals(staleAfter)+c.slack }

// demotions is H5.
func (c *checker) demotions(r *replica) {
	for _, f := range r.faults.all {
		if f.kind == Kill || !c.hits(f) {
			continue
		}
		reach := f.from
		if f.kind == Partition {
			reach = f.to // a grant that was on its way may still begin a term
		}
		for t := range r.terms.during(span{f.from, reach}) {
			c.demotion(r, f, t)
		}
	}
}

func (c *checker) demotion(r *replica, f fault, t *term) {
	switch {
	case f.kind == Partition:
		f.from = max(f.from, t.from)
	case t.from >= f.from:
		return
	}
	limit := c.demoteBy(r, f)
	switch {
	case t.to <= f.from:
		return
	case f.kind == Partition && f.to <= limit+c.slack && f.to < t.to:
		return
	case f.kind == Pause && (t.to < f.to || f.length() <= c.intervals(f.kind.Bounds().LockFree)+c.slack):
		return
	}
	began, what := f.from, "the fault"
	if f.kind == Pause {
		began, what = f.to, "its resumption from the fault"
	}
	bound := f.kind.Bounds().Demote
	if limit == began+c.intervals(bound) {
		c.measure(f.kind, Measured{Demotion: t.to - began})
	}
	if t.to > limit+c.slack {
		c.violated("H5", limit, "%s led on until %v after %s %q at %v: %s", r.name, t.to, what, f.kind, began, c.size(t.to-began, bound))
	}
}

// fences is H2. The order of two terms that began within the slack is not known.
func (c *checker) fences() {
	var terms []*term
	for _, r := range c.replicas {
		for _, t := range r.terms.all {
			if t.fence != 0 {
				terms = append(terms, t)
			}
		}
	}
	slices.SortStableFunc(terms, func(t, o *term) int { return cmp.Or(cmp.Compare(t.from, o.from), cmp.Compare(t.fence, o.fence)) })
	const text = "the term of %s at %v has fence %d, that of %s before it, at %v, had %d"
	byFence := make(map[uint64]*term, len(terms))
	var highest *term // of terms[:before]
	before := 0
	for _, t := range terms {
		for ; terms[before].from < t.from-c.slack; before++ {
			if highest == nil || terms[before].fence > highest.fence {
				highest = terms[before]
			}
		}
		twin := byFence[t.fence]
		byFence[t.fence] = t
		if twin == nil && highest != nil && highest.fence > t.fence {
			twin = highest
		}
		if twin != nil {
			c.violated("H2", t.from, text, t.replica.name, t.from, t.fence, twin.replica.name, twin.from, twin.fence)
		}
	}
}

// overlaps is H3.
func (c *checker) overlaps() {
	var terms []*term
	for _, r := range c.replicas {
		terms = append(terms, r.terms.all...)
	}
	for older, newer := range newSpans(terms).pairs() {
		if older.replica != newer.replica {
			c.overlap(older, newer, older.common(newer.span))
		}
	}
}

func (c *checker) overlap(older, newer *term, both span) {
	limit, kind, alone := c.excuse(older, both.from)
	if newer.from <= older.from+c.slack { // either may be the older
		if l, k, a := c.excuse(newer, both.from); l > limit {
			limit, kind, alone = l, k, a
		}
	}
	if kind != Pause { // a process that does not run leads in nobody's eyes
		c.report.WorstOverlap = max(c.report.WorstOverlap, both.length())
	}
	if alone && kind != Pause { // what another fault made longer is no figure of this one
		c.measure(kind, Measured{Overlap: both.length()})
	}
	if both.to <= limit+c.slack {
		return
	}
	why := "no fault explains it"
	if kind != "" {
		why = fmt.Sprintf("the fault %q explains it only until %v", kind, limit)
	}
	c.violated("H3", both.from, "%s, which led from %v to %v, and %s, from %v to %v, led both for %v from %v on; %s", older.replica.name,
		older.from, older.to, newer.replica.name, newer.from, newer.to, both.length(), both.from, why)
}

// excuse returns until when the replica of the older term may lead beside another that leads from since on, by which fault,
// and whether by the bound of that fault alone. Without such a fault it returns since and none.
func (c *checker) excuse(older *term, since moment) (until moment, by Fault, alone bool) {
	until = since
	r := older.replica
	for f := range r.faults.during(span{older.from - c.slack, since + c.slack}) {
		silence := f.to - silentSince(r, f)
		resumed := f.kind == Pause && silence >= c.intervals(staleAfter)-c.slack
		if !resumed && (!f.kind.endsSession() || !c.hits(f) && !c.unseen(older, f)) {
			continue
		}
		if limit := c.demoteBy(r, f); limit > until {
			until, by, alone = limit, f.kind, limit <= f.from+c.intervals(f.kind.Bounds().Demote)
		}
	}
	return until, by, alone
}
