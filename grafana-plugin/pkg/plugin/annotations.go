package plugin

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/exporter"
)

// annotation is a handover, or a time without leader.
type annotation struct {
	from, to                time.Time
	title, text, tags, name string
}

// annotationsFrame has a region for each beginning of a term in the range, from the last poll that did not show it to the first that
// did, and one for each time in which polls have seen no leader. present tells how long that went on after the last term. to is not
// after now.
func annotationsFrame(terms []exporter.Term, present exporter.Locks, from, to time.Time) *data.Frame {
	var all []annotation
	byLock := make(map[lockID]*exporter.Term) // the next term of the lock: terms come newest first
	for i, term := range terms {
		id := lockID{term.Target, term.Datname, term.Lock}
		next := byLock[id]
		byLock[id] = &terms[i]
		if gap, ok := leaderless(term, next, freeUntil(present, term)); ok && gap.from.Before(to) && gap.to.After(from) {
			gap.to = earlier(gap.to, to)
			all = append(all, gap)
		}
		if !term.Start.Before(from) && term.Start.Before(to) {
			all = append(all, began(term))
		}
	}
	slices.SortStableFunc(all, func(a, b annotation) int { return cmp.Or(a.from.Compare(b.from), cmp.Compare(a.name, b.name)) })
	frame := data.NewFrame("annotations",
		column("id", all, func(a annotation) string { return a.id() }),
		column("time", all, func(a annotation) time.Time { return a.from.UTC() }),
		column("timeEnd", all, func(a annotation) time.Time { return a.to.UTC() }),
		column("title", all, func(a annotation) string { return a.title }),
		column("text", all, func(a annotation) string { return a.text }),
		column("tags", all, func(a annotation) string { return a.tags }),
	)
	frame.Meta = &data.FrameMeta{DataTopic: data.DataTopicAnnotations}
	return frame
}

// began tells of the beginning of a term.
func began(term exporter.Term) annotation {
	a := annotation{from: term.Start, to: term.Start, name: "began " + nameOf(term)}
	if term.StartedAfter != nil {
		a.from = *term.StartedAfter
	}
	a.title = fmt.Sprintf("%s leads", holderName(term))
	a.text = fmt.Sprintf("%s %s %s: backend %d", term.Target, term.Datname, term.Lock, term.PID)
	if term.ClientAddr != "" {
		a.text += " from " + term.ClientAddr
	}
	a.tags = tags("handover", term)
	return a
}

// leaderless tells of the time between the end of a term and the begin of the next, if polls saw nobody in between. Without a next
// one it goes on until then.
func leaderless(term exporter.Term, next *exporter.Term, until time.Time) (annotation, bool) {
	if term.End == nil {
		return annotation{}, false
	}
	if next != nil {
		if next.StartedAfter == nil || !next.Start.After(*term.End) { // one poll that saw the lock free is enough
			return annotation{}, false
		}
		until = next.Start
	}
	if until.Before(*term.End) {
		until = *term.End
	}
	a := annotation{from: *term.End, to: until, name: "free " + nameOf(term)}
	a.title = noLeader
	a.text = fmt.Sprintf("%s %s %s: after %s", term.Target, term.Datname, term.Lock, holderName(term))
	a.tags = tags("no leader", term)
	return a, true
}

// freeUntil returns until when the exporter has seen the lock of an ended term free, if no other term came: the last answered poll of
// its target. A lock that is not watched any more was seen free at the end of the term.
func freeUntil(present exporter.Locks, term exporter.Term) time.Time {
	var until time.Time
	for _, lock := range present.Locks {
		if lock.Target != term.Target || lock.Datname != term.Datname || lock.Lock != term.Lock {
			continue
		}
		for _, target := range present.Targets {
			if target.Target == lock.Target && target.LastSuccess != nil {
				until = *target.LastSuccess
			}
		}
	}
	return until
}

// id stays the same from query to query.
func (a annotation) id() string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(a.name))
	return fmt.Sprintf("%016x", hash.Sum64())
}

func nameOf(term exporter.Term) string {
	return fmt.Sprintf("%q %q %q %d %d", term.Target, term.Datname, term.Lock, term.PID, term.Start.UnixNano())
}

// tags are separated by commas, so that a name must not have one.
func tags(kind string, term exporter.Term) string {
	clean := strings.NewReplacer(",", " ")
	return strings.Join([]string{kind, clean.Replace(term.Target), clean.Replace(term.Datname), clean.Replace(term.Lock)}, ",")
}
