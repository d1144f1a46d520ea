package leadertest

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sort"
	"time"
)

// moment is a point in time, as the time since the first event of the history.
type moment = time.Duration

// forever is the end of a fault that never ends.
const forever moment = math.MaxInt64 / 2

// span is a stretch of time, its ends included. All but a fault that is open at the end of the history ends there.
type span struct{ from, to moment }

func (s span) extent() span        { return s }
func (s span) start() span         { return span{s.from, s.from} }
func (s span) length() moment      { return s.to - s.from }
func (s span) common(o span) span  { return span{max(s.from, o.from), min(s.to, o.to)} }
func (s span) holds(m moment) bool { return s.from <= m && m <= s.to }

// spans are things with a duration, by their beginning.
type spans[T interface{ extent() span }] struct {
	all   []T
	reach []moment // reach[i] is when the last of all[:i+1] ends, so that a search back knows where to stop
}

// newSpans sorts all in place.
func newSpans[T interface{ extent() span }](all []T) spans[T] {
	slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(a.extent().from, b.extent().from) })
	reach := make([]moment, len(all))
	for i := range all {
		reach[i] = all[i].extent().to
		if i > 0 {
			reach[i] = max(reach[i], reach[i-1])
		}
	}
	return spans[T]{all: all, reach: reach}
}

// during returns those that touch the stretch, the last to begin first.
func (s spans[T]) during(stretch span) iter.Seq[T] {
	return func(yield func(T) bool) {
		last := sort.Search(len(s.all), func(i int) bool { return s.all[i].extent().from > stretch.to }) - 1
		for i := last; i >= 0 && s.reach[i] >= stretch.from; i-- {
			if s.all[i].extent().to >= stretch.from && !yield(s.all[i]) {
				return
			}
		}
	}
}

// pairs returns each two that have a moment in common, the one that began first in front.
func (s spans[T]) pairs() iter.Seq2[T, T] {
	return func(yield func(T, T) bool) {
		var open []T
		for _, next := range s.all {
			open = slices.DeleteFunc(open, func(o T) bool { return o.extent().to < next.extent().from })
			for _, o := range open {
				if !yield(o, next) {
					return
				}
			}
			open = append(open, next)
		}
	}
}

// without returns what the holes, sorted by their beginning, leave of s.
func (s span) without(holes []span) []span {
	var rest []span
	from := s.from
	for _, hole := range holes {
		if hole.from > s.to {
			break
		}
		if hole.from > from {
			rest = append(rest, span{from, hole.from})
		}
		from = max(from, hole.to)
	}
	if from < s.to {
		rest = append(rest, span{from, s.to})
	}
	return rest
}
