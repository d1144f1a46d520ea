package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/exporter"
)

// What a timeline shows beside the names of holders.
const (
	noLeader = "no leader"
	several  = "several holders"
	notKnown = "unknown"
)

// missedPolls is how many polls may be missing before time counts as time in which nobody looked, as the exporter counts.
const missedPolls = 3

// lockID names one lock in one database of a target.
type lockID struct{ target, datname, lock string }

func (id lockID) String() string { return id.target + " / " + id.datname + " / " + id.lock }

// timelineOf is what is known of one lock for the time of a query.
type timelineOf struct {
	id      lockID
	before  *exporter.Term  // the last one that ended before the range, if there is one
	terms   []exporter.Term // oldest first
	lock    *exporter.Lock  // nil when it is not watched any more
	target  *exporter.Target
	marks   []mark
	from    time.Time
	to      time.Time // the end of the range, or now
	nowFree bool      // the last mark says that polls have seen no leader
}

// mark is where a state begins.
type mark struct {
	at    time.Time
	state string
}

func (d *Datasource) timeline(ctx context.Context, q query) (data.Frames, error) {
	from, to := q.TimeRange.From, q.TimeRange.To
	terms, cut, err := d.exporter.Terms(ctx, q.Filter, from, to, q.limit(defaultSegments))
	if err != nil {
		return nil, err
	}
	answer, err := d.exporter.Locks(ctx, q.Filter)
	if err != nil {
		return nil, err
	}
	lines := timelines(terms, answer, from, earlier(to, time.Now()))
	if !cut {
		d.findBefore(ctx, lines)
	}
	frames := make(data.Frames, 0, len(lines))
	earliest := false
	for _, line := range lines {
		line.draw()
		earliest = earliest || (len(line.marks) > 0 && line.marks[0].state == notKnown)
		frame := line.frame()
		frame.Meta.ExecutedQueryString = q.said("api/v1/terms")
		frames = append(frames, frame)
	}
	if len(frames) == 0 {
		frames = append(frames, data.NewFrame("timeline", data.NewField("time", nil, []time.Time{}), data.NewField("leader", nil, []*string{})))
		frames[0].Meta = &data.FrameMeta{}
	}
	if cut {
		frames[0].AppendNotices(cutNotice(len(terms)))
	}
	if earliest {
		frames[0].AppendNotices(data.Notice{Severity: data.NoticeSeverityInfo, Text: "The range begins before what the exporter knows: that time is shown as unknown."})
	}
	return frames, nil
}

// timelines sorts what is known by lock.
func timelines(terms []exporter.Term, answer exporter.Locks, from, to time.Time) []*timelineOf {
	lines := make(map[lockID]*timelineOf)
	line := func(id lockID) *timelineOf {
		if lines[id] == nil {
			lines[id] = &timelineOf{id: id, from: from, to: to}
		}
		return lines[id]
	}
	for _, term := range slices.Backward(terms) {
		l := line(lockID{term.Target, term.Datname, term.Lock})
		l.terms = append(l.terms, term)
	}
	for i, lock := range answer.Locks {
		if lock.Datname != "" { // else nothing is known of the lock, in whatever database
			line(lockID{lock.Target, lock.Datname, lock.Lock}).lock = &answer.Locks[i]
		}
	}
	sorted := make([]*timelineOf, 0, len(lines))
	for _, l := range lines {
		for i, target := range answer.Targets {
			if target.Target == l.id.target {
				l.target = &answer.Targets[i]
			}
		}
		slices.SortStableFunc(l.terms, func(a, b exporter.Term) int { return a.Start.Compare(b.Start) })
		sorted = append(sorted, l)
	}
	slices.SortFunc(sorted, func(a, b *timelineOf) int {
		return cmp.Or(cmp.Compare(a.id.target, b.id.target), cmp.Compare(a.id.datname, b.id.datname), cmp.Compare(a.id.lock, b.id.lock))
	})
	return sorted
}

// maxBefore bounds the requests that findBefore makes.
const maxBefore = 100

// findBefore asks for the term before the range, where the range does not begin within one. What it cannot learn stays unknown.
func (d *Datasource) findBefore(ctx context.Context, lines []*timelineOf) {
	var all sync.WaitGroup
	for _, line := range lines[:min(len(lines), maxBefore)] {
		if len(line.terms) > 0 && !line.terms[0].Start.After(line.from) {
			continue
		}
		all.Go(func() {
			only := exporter.Filter{Targets: []string{line.id.target}, Databases: []string{line.id.datname}, Locks: []string{line.id.lock}}
			found, _, err := d.exporter.Terms(ctx, only, time.Unix(0, 0), line.from, 1)
			if err == nil && len(found) > 0 && found[0].End != nil {
				line.before = &found[0]
			}
		})
	}
	all.Wait()
}

// gap is the longest time between two polls in which nothing is taken for missed.
func (l *timelineOf) gap() time.Duration {
	interval := time.Second
	if l.target != nil && l.target.PollIntervalSeconds > 0 {
		interval = time.Duration(l.target.PollIntervalSeconds * float64(time.Second))
	}
	return missedPolls * interval
}

// put begins a state, unless it goes on or lies after the end of the range. Time does not step back.
func (l *timelineOf) put(at time.Time, state string) {
	if at.Before(l.from) {
		at = l.from
	}
	l.nowFree = state == noLeader
	if !at.Before(l.to) {
		return
	}
	if n := len(l.marks); n > 0 {
		if at.Before(l.marks[n-1].at) {
			at = l.marks[n-1].at
		}
		if at.Equal(l.marks[n-1].at) {
			l.marks = l.marks[:n-1]
		}
	}
	if n := len(l.marks); n == 0 || l.marks[n-1].state != state {
		l.marks = append(l.marks, mark{at, state})
	}
}

// draw fills marks. A holder is shown from the first poll that saw it to the first that did not; where polls were missing, only to
// the last that did.
func (l *timelineOf) draw() {
	var free *time.Time // when polls began to see no leader
	l.put(l.from, notKnown)
	if l.before != nil {
		free = l.before.End
		l.put(*free, noLeader)
	}
	names := l.names()
	for i, term := range l.terms {
		switch {
		case term.StartedAfter == nil && free != nil && l.nowFree:
			l.put(*free, notKnown) // the exporter has begun anew
		case term.StartedAfter != nil && term.Start.Sub(*term.StartedAfter) > l.gap():
			l.put(*term.StartedAfter, notKnown)
		}
		l.put(term.Start, names[i])
		switch {
		case term.End != nil:
			if term.End.Sub(term.LastSeen) > l.gap() {
				l.put(term.LastSeen, notKnown)
			}
			l.put(*term.End, noLeader)
			free = term.End
		case !l.goesOn(term):
			l.put(term.LastSeen, notKnown)
		}
	}
	l.drawPresent(free)
}

// goesOn reports whether polls still see the term. While a target cannot be asked its term is ongoing for all that is known, but
// nobody sees it.
func (l *timelineOf) goesOn(term exporter.Term) bool {
	return term.Ongoing && l.lock != nil && l.lock.Verdict != exporter.Unknown
}

// drawPresent adds what is known after the last term.
func (l *timelineOf) drawPresent(free *time.Time) {
	switch {
	case l.lock == nil || l.lock.Verdict == exporter.Unknown:
		if !l.nowFree {
			return
		}
		until := free
		if l.target != nil && l.target.LastSuccess != nil && l.lock != nil {
			until = l.target.LastSuccess
		}
		if until != nil {
			l.put(*until, notKnown)
		}
	case l.lock.At == nil:
	case l.lock.Verdict == exporter.Multiple:
		l.put(*l.lock.At, several)
	case l.lock.Verdict == exporter.Unheld && !l.nowFree:
		l.put(*l.lock.At, noLeader)
	}
}

// names returns what to call the holder of each term: its application_name, with the address where several share the name.
func (l *timelineOf) names() []string {
	addresses := make(map[string]map[string]bool)
	for _, term := range l.terms {
		if addresses[term.ApplicationName] == nil {
			addresses[term.ApplicationName] = make(map[string]bool)
		}
		addresses[term.ApplicationName][term.ClientAddr] = true
	}
	names := make([]string, len(l.terms))
	for i, term := range l.terms {
		names[i] = holderName(term)
		if len(addresses[term.ApplicationName]) > 1 && term.ApplicationName != "" {
			names[i] = fmt.Sprintf("%s (%s)", term.ApplicationName, cmp.Or(term.ClientAddr, "local"))
		}
	}
	return names
}

func holderName(term exporter.Term) string {
	return cmp.Or(term.ApplicationName, nameless(term.PID))
}

// frame turns marks into rows. The last row ends the last state, which a panel would else draw up to its right edge.
func (l *timelineOf) frame() *data.Frame {
	times, states := make([]time.Time, 0, len(l.marks)+1), make([]*string, 0, len(l.marks)+1)
	for _, m := range l.marks {
		times, states = append(times, m.at.UTC()), append(states, &m.state)
	}
	if len(l.marks) > 0 {
		times, states = append(times, l.to.UTC()), append(states, nil)
	}
	leader := data.NewField("leader", data.Labels{"target": l.id.target, "datname": l.id.datname, "lock": l.id.lock}, states)
	leader.Config = &data.FieldConfig{
		DisplayNameFromDS: l.id.String(),
		Mappings: data.ValueMappings{data.ValueMapper{
			noLeader: {Color: "red"}, several: {Color: "red"}, notKnown: {Color: "text"},
		}},
	}
	frame := data.NewFrame(l.id.String(), data.NewField("time", nil, times), leader)
	frame.Meta = &data.FrameMeta{}
	return frame
}
