package leadertest

import "sort"

// demoteBy returns when a fault of the replica must have ended its term: the bound of the fault; that of a cut network
// which keeps the news of a lost session from the client; one interval after each pause that comes before that.
func (c *checker) demoteBy(r *replica, f fault) moment {
	if f.kind == Pause {
		return f.to + c.intervals(f.kind.Bounds().Demote)
	}
	bound := f.kind.Bounds().Demote
	limit := f.from + c.intervals(bound)
	if f.kind.endsSession() {
		for other := range r.faults.during(span{f.from, limit + c.slack}) {
			if larger := other.kind.Bounds().Demote; larger > bound {
				limit = max(limit, other.from+c.intervals(larger))
			}
		}
	}
	first := sort.Search(len(r.pauses), func(i int) bool { return r.pauses[i].to >= f.from })
	for _, p := range r.pauses[first:] {
		if p.from > limit+c.slack {
			break
		}
		limit = max(limit, p.to+c.intervals(Pause.Bounds().Demote))
	}
	return limit
}

// silentSince returns when the silence began in which the pause came.
func silentSince(r *replica, pause fault) moment {
	since := pause.from
	for other := range r.faults.during(pause.span) {
		if other.kind.silences() {
			since = min(since, other.from)
		}
	}
	return since
}

// shows reports whether the server showed the lock for the replica at any moment of the stretch. A grant that names no
// replica may be any replica's.
func (c *checker) shows(r *replica, stretch span) bool {
	for g := range c.grants.during(stretch) {
		if g.replica == r.name || g.replica == "" {
			return true
		}
	}
	return false
}

// around is the moment with the slack on both sides.
func (c *checker) around(m moment) span { return span{m - c.slack, m + c.slack} }

// hits reports whether the fault can have touched the lock: of one terminated backend it is known whether it held it.
func (c *checker) hits(f fault) bool {
	if f.pid == 0 || len(c.grants.all) == 0 {
		return true
	}
	for g := range c.grants.during(c.around(f.from)) {
		if g.pid == f.pid {
			return true
		}
	}
	return false
}

// unseen reports whether the fault came within the slack of the beginning of the term, so that the server may have shown the
// lock for too short a time to be seen.
func (c *checker) unseen(t *term, f fault) bool { return c.slack > 0 && c.around(t.from).holds(f.from) }
