package leadertest

import (
	"cmp"
	"slices"
	"time"
)

// timeline is a history put in order: what lasted, from when to when.
type timeline struct {
	start    time.Time
	end      moment // of the last event
	replicas []*replica
	grants   spans[grant]
	down     []span // the server did not answer
	counter  counter
	flaws    []flaw
}

// replica is what is known of one, all in the order of time.
type replica struct {
	name   string
	terms  spans[*term]
	units  []unit
	faults spans[fault] // the server's too
	pauses []span
	runs   []span
}

// term is a stretch in which a replica led in its own eyes.
type term struct {
	span
	replica *replica
	fence   uint64
}

// unit is a unit of work.
type unit struct {
	span
	fence uint64
}

// grant is a stretch in which the server showed the lock for a session.
type grant struct {
	span
	replica string
	pid     uint32
}

// fault is a fault that hits a replica.
type fault struct {
	span
	kind Fault
	pid  uint32
}

// flaw is an event that makes no sense.
type flaw struct {
	at   moment
	text string
}

// builder reads events in the order of time.
type builder struct {
	timeline
	now     moment
	byName  map[string]*track
	grants  []grant
	holding map[uint32]int // index in grants by PID
	server  []fault
	isDown  bool
}

// track is a replica while its events are being read. What is open is an index, or -1.
type track struct {
	*replica
	terms     []*term
	faults    []fault
	openTerm  bool // the last of terms
	openUnits map[uint64]int
	openFault map[Fault]int
	running   bool
}

// newTimeline sorts the events by their moments, those of one moment by their order.
func newTimeline(events []Event) *timeline {
	order := make([]int, 0, len(events))
	b := &builder{byName: make(map[string]*track), holding: make(map[uint32]int)}
	b.counter.open = make(map[attempt]int)
	for i := range events {
		if events[i].At.IsZero() {
			b.flaw("an event of kind %q has no moment", events[i].Kind)
			continue
		}
		order = append(order, i)
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(events[i].At.Compare(events[j].At), cmp.Compare(i, j))
	})
	if len(order) > 0 {
		b.start = events[order[0]].At.Round(0)
		b.end = events[order[len(order)-1]].At.Round(0).Sub(b.start)
	}
	for _, i := range order {
		b.now = events[i].At.Round(0).Sub(b.start)
		b.apply(&events[i])
	}
	return b.seal()
}

// seal makes the timeline of what was read.
func (b *builder) seal() *timeline {
	for _, t := range b.byName {
		t.replica.terms = newSpans(t.terms)
		for _, f := range t.faults {
			if f.kind == Pause {
				t.pauses = append(t.pauses, f.span)
			}
		}
		t.replica.faults = newSpans(append(t.faults, b.server...))
		b.replicas = append(b.replicas, t.replica)
	}
	slices.SortFunc(b.replicas, func(x, y *replica) int { return cmp.Compare(x.name, y.name) })
	for _, f := range b.server {
		b.down = append(b.down, f.span)
	}
	b.timeline.grants = newSpans(b.grants)
	return &b.timeline
}
