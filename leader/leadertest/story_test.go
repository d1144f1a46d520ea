package leadertest_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// story is a history written by hand. Its moments are in seconds, and a CheckInterval is one second.
type story []leadertest.Event

func (s *story) add(at float64, e leadertest.Event) {
	e.At = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(at * float64(time.Second)).Round(time.Microsecond))
	*s = append(*s, e)
}

func (s *story) start(at float64, replica string) {
	s.add(at, leadertest.Event{Kind: leadertest.ProcessStarted, Replica: replica})
}

func (s *story) die(at float64, replica string) {
	s.add(at, leadertest.Event{Kind: leadertest.ProcessEnded, Replica: replica})
}

func (s *story) lead(at float64, replica string, fence uint64) {
	s.add(at, leadertest.Event{Kind: leadertest.TermBegan, Replica: replica, Fence: fence})
}

func (s *story) follow(at float64, replica string) {
	s.add(at, leadertest.Event{Kind: leadertest.TermEnded, Replica: replica})
}

// work is a unit that is done after a millisecond.
func (s *story) work(at float64, replica string, fence uint64) {
	s.workUntil(at, at+0.001, replica, fence)
}

func (s *story) workUntil(at, until float64, replica string, fence uint64) {
	unit := uint64(len(*s))
	s.add(at, leadertest.Event{Kind: leadertest.UnitBegan, Replica: replica, Fence: fence, Unit: unit})
	s.add(until, leadertest.Event{Kind: leadertest.UnitEnded, Replica: replica, Unit: unit})
}

func (s *story) grant(at float64, pid uint32, replica string) {
	s.add(at, leadertest.Event{Kind: leadertest.LockGranted, PID: pid, Replica: replica})
}

func (s *story) release(at float64, pid uint32) {
	s.add(at, leadertest.Event{Kind: leadertest.LockReleased, PID: pid})
}

// hit is of the server when it names no replica.
func (s *story) hit(at float64, replica string, fault leadertest.Fault) {
	s.add(at, leadertest.Event{Kind: leadertest.FaultBegan, Replica: replica, Fault: fault})
}

func (s *story) heal(at float64, replica string, fault leadertest.Fault) {
	s.add(at, leadertest.Event{Kind: leadertest.FaultEnded, Replica: replica, Fault: fault})
}

func (s *story) increment(at float64, kind leadertest.Kind, replica string, value int64) {
	s.add(at, leadertest.Event{Kind: kind, Replica: replica, Value: value})
}

func (s *story) counted(at float64, value int64) {
	s.add(at, leadertest.Event{Kind: leadertest.CounterRead, Value: value})
}

// check returns the report and the violations, with the events in another order that keeps that of each source.
func (s *story) check(t *testing.T, slack time.Duration, seed uint64) (leadertest.Report, []*leadertest.Violation) {
	t.Helper()
	var h leadertest.History
	for _, e := range s.interleaved(seed) {
		h.Record(e)
	}
	report, err := h.Check(leadertest.Config{CheckInterval: time.Second, Slack: slack})
	return report, violations(t, err)
}

// interleaved merges the events of the replicas and of the server at random. Seed 0 leaves them as they are.
func (s *story) interleaved(seed uint64) []leadertest.Event {
	if seed == 0 {
		return *s
	}
	sources := make(map[string][]leadertest.Event)
	var names []string
	for _, e := range *s {
		if sources[e.Replica] == nil {
			names = append(names, e.Replica)
		}
		sources[e.Replica] = append(sources[e.Replica], e)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	var merged []leadertest.Event
	for len(names) > 0 {
		i := random.IntN(len(names))
		source := sources[names[i]]
		merged, sources[names[i]] = append(merged, source[0]), source[1:]
		if len(source) == 1 {
			names = slices.Delete(names, i, i+1)
		}
	}
	return merged
}

func violations(t *testing.T, err error) []*leadertest.Violation {
	t.Helper()
	var found []*leadertest.Violation
	var joined interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &joined):
		t.Fatalf("Check: %v; want joined violations", err)
	}
	for _, one := range joined.Unwrap() {
		var v *leadertest.Violation
		if nested, ok := one.(interface{ Unwrap() []error }); ok {
			found = append(found, violations(t, errors.Join(nested.Unwrap()...))...)
		} else if !errors.As(one, &v) {
			t.Fatalf("Check: %v; want a Violation", one)
		} else {
			found = append(found, v)
		}
	}
	return found
}

// rules returns the ids of the violations, sorted, each once: "H3 H5".
func rules(found []*leadertest.Violation) string {
	var ids []string
	for _, v := range found {
		ids = append(ids, v.Rule)
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), " ")
}

// wantRules checks the story in several orders.
func (s *story) wantRules(t *testing.T, slack time.Duration, want string) (leadertest.Report, []*leadertest.Violation) {
	t.Helper()
	for seed := range uint64(20) {
		if _, found := s.check(t, slack, seed); rules(found) != want {
			t.Fatalf("seed %d: rules %q broken, want %q: %v", seed, rules(found), want, found)
		}
	}
	return s.check(t, slack, 0)
}
