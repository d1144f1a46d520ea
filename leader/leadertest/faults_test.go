package leadertest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// faulty is a history of a leader a, which a fault hits at 10 s, and of its successor b. The moments are counted from the
// fault, those of a server restart but for demotion from the server's answer, and demote of a pause from the resumption.
type faulty struct {
	fault                  leadertest.Fault
	lasts                  float64
	demote, lockFree, next float64
}

func (f faulty) tell() *story {
	const hit = 10
	replica, answers, awake := "a", float64(hit), float64(hit)
	switch f.fault {
	case leadertest.ServerRestart:
		replica, answers = "", hit+f.lasts
	case leadertest.Pause:
		awake += f.lasts
	}
	var s story
	s.start(0, "a")
	s.start(0, "b")
	s.grant(0.5, 11, "a")
	s.lead(0.5, "a", 1)
	for at := 1.0; at < hit; at++ {
		s.work(at, "a", 1)
	}
	s.hit(hit, replica, f.fault)
	if f.fault != leadertest.Kill {
		s.follow(awake+f.demote, "a")
	}
	s.release(hit+f.lockFree, 11)
	s.grant(answers+f.next, 12, "b")
	s.lead(answers+f.next, "b", 2)
	if f.fault != leadertest.Terminated {
		s.heal(hit+f.lasts, replica, f.fault)
	}
	s.work(answers+f.next, "b", 2)
	s.counted(40, 0)
	return &s
}

// atTheBounds returns for each fault a history that comes as late as allowed.
func atTheBounds() []faulty {
	var all []faulty
	for _, fault := range leadertest.Faults() {
		b := fault.Bounds()
		all = append(all, faulty{
			fault: fault, lasts: 15,
			demote: float64(b.Demote), lockFree: float64(b.LockFree), next: float64(b.NextLeader),
		})
	}
	return all
}

func TestEachFaultMayComeUpToItsBounds(t *testing.T) {
	for _, f := range atTheBounds() {
		t.Run(string(f.fault), func(t *testing.T) {
			report, _ := f.tell().wantRules(t, 0, "")
			if report.Terms != 2 || report.Grants != 2 || report.Units != 10 || report.Faults[f.fault].Count != 1 {
				t.Errorf("the report misses something: %+v", report)
			}
			seen, bounds := report.Faults[f.fault], f.fault.Bounds()
			if f.fault != leadertest.Kill && seen.Demotion != time.Duration(bounds.Demote)*time.Second {
				t.Errorf("Demotion = %v, want %d s", seen.Demotion, bounds.Demote)
			}
			if f.fault != leadertest.ServerRestart && seen.LockFree != time.Duration(bounds.LockFree)*time.Second {
				t.Errorf("LockFree = %v, want %d s", seen.LockFree, bounds.LockFree)
			}
			if f.fault == leadertest.Pause && (report.WorstOverlap != 0 || seen.Overlap != 0) {
				t.Errorf("overlap = %v and %v while the older leader was paused, want none", report.WorstOverlap, seen.Overlap)
			}
			if report.WorstGap != time.Second {
				t.Errorf("WorstGap = %v, want 1s", report.WorstGap)
			}
		})
	}
}

func TestEachFaultIsHeldToItsBounds(t *testing.T) {
	const more = 0.001
	for _, f := range atTheBounds() {
		t.Run(string(f.fault), func(t *testing.T) {
			if f.fault != leadertest.Kill {
				late, want := f, "H5"
				late.demote += more
				if f.next < late.demote || f.fault == leadertest.Pause {
					want = "H3 H5"
				}
				if f.fault == leadertest.ServerRestart {
					want = "H5" // the successor comes with the server
				}
				late.tell().wantRules(t, 0, want)
				late.tell().wantRules(t, time.Millisecond, "")
			}
			if f.fault != leadertest.ServerRestart {
				late := f
				late.lockFree += more
				late.tell().wantRules(t, 0, "H6")
				late.tell().wantRules(t, time.Millisecond, "")
			}
			late := f
			late.next += more
			late.tell().wantRules(t, 0, "H7")
			late.tell().wantRules(t, time.Millisecond, "")
		})
	}
}

func TestOverlapIsHeldToTheBoundOfItsFault(t *testing.T) {
	for _, f := range atTheBounds() {
		if f.fault.Bounds().Overlap == 0 {
			continue
		}
		t.Run(string(f.fault), func(t *testing.T) {
			f.next = 0
			want := time.Duration(f.fault.Bounds().Overlap) * time.Second
			if f.fault == leadertest.ServerRestart {
				f.lasts = 0.001
				want -= time.Millisecond
			}
			report, _ := f.tell().wantRules(t, 0, "")
			if report.WorstOverlap != want || report.Faults[f.fault].Overlap != want {
				t.Errorf("overlap = %v and %v, want %v", report.WorstOverlap, report.Faults[f.fault].Overlap, want)
			}
			f.demote += 0.001
			f.tell().wantRules(t, 0, "H3 H5")
		})
	}
}

func TestAFaultThatIsOverSoonDemandsNothing(t *testing.T) {
	for _, f := range []faulty{
		{fault: leadertest.Partition, lasts: 1.9, demote: 6, lockFree: 6, next: 6.5},
		{fault: leadertest.Pause, lasts: 4, demote: 6, lockFree: 10, next: 10.5},
	} {
		t.Run(string(f.fault), func(t *testing.T) {
			f.tell().wantRules(t, 0, "")
			f.lasts += 2.2
			if rules := ruleSet(t, f.tell()); !strings.Contains(rules, "H5") || !strings.Contains(rules, "H6") {
				t.Errorf("lasting %v s, it breaks %q; want H5 and H6", f.lasts, rules)
			}
		})
	}
}

func ruleSet(t *testing.T, s *story) string {
	t.Helper()
	_, found := s.check(t, 0, 0)
	return rules(found)
}

func TestNextLeaderIsOneAttemptAfterTheLockIsFree(t *testing.T) {
	for _, f := range leadertest.Faults() {
		if b := f.Bounds(); b.NextLeader != b.LockFree+1 || b.Overlap > b.Demote {
			t.Errorf("%s: the bounds contradict each other: %+v", f, b)
		}
	}
	if b := leadertest.Fault("coffee").Bounds(); b != (leadertest.Bounds{}) {
		t.Errorf("an unknown fault has bounds: %+v", b)
	}
}
