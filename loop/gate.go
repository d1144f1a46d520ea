package loop

// Gate is the predicate of work that every replica does, with a step in it that only one may do, such as to record what all of them
// observed: loop.Gate(elector.IsLeader).
type Gate func() bool

// Open reports whether the step may be done now. A nil Gate is always open, as a deployment of one replica needs it. It is as
// safe from any goroutine as the predicate is.
func (g Gate) Open() bool { return g == nil || g() }
