package leadertest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// badStories returns one or more histories for each rule, which break that rule alone.
func badStories() map[string]func(*story) {
	return map[string]func(*story){
		"H1 two sessions hold the lock": func(s *story) {
			s.grant(0, 11, "a")
			s.grant(5, 12, "b")
			s.release(6, 11)
		},
		"H2 a lower fence follows": func(s *story) {
			s.lead(0, "a", 7)
			s.follow(5, "a")
			s.lead(6, "b", 6)
		},
		"H2 a fence comes twice": func(s *story) {
			s.lead(0, "a", 7)
			s.follow(5, "a")
			s.lead(6, "b", 7)
		},
		"H2 units tell the fences": func(s *story) {
			s.lead(0, "a", 0)
			s.work(1, "a", 7)
			s.follow(5, "a")
			s.lead(6, "b", 0)
			s.work(7, "b", 6)
		},
		"H3 two lead without a fault": func(s *story) {
			s.lead(0, "a", 1)
			s.lead(5, "b", 2)
			s.follow(5.5, "a")
		},
		"H3 the fault hit the younger": func(s *story) {
			s.lead(0, "a", 1)
			s.hit(4.9, "b", leadertest.Terminated)
			s.lead(5, "b", 2)
			s.follow(5.5, "a")
		},
		"H3 the fault came before the term": func(s *story) {
			s.hit(0, "a", leadertest.Terminated)
			s.lead(0.2, "a", 1)
			s.lead(0.4, "b", 2)
			s.follow(0.6, "a")
		},
		"H3 a partition allows none": func(s *story) {
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Partition)
			s.lead(6, "b", 2)
			s.follow(7, "a")
		},
		"H3 a short pause allows none": func(s *story) {
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Pause)
			s.lead(6, "b", 2)
			s.heal(7, "a", leadertest.Pause)
			s.follow(7.2, "a")
		},
		"H3 both lead after the pause": func(s *story) {
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Pause)
			s.lead(8.2, "b", 2)
			s.heal(8.5, "a", leadertest.Pause)
			s.follow(9.6, "a")
		},
		"H3 the fault came later": func(s *story) {
			s.lead(0, "a", 1)
			s.lead(5, "b", 2)
			s.hit(5.2, "a", leadertest.Terminated)
			s.follow(5.5, "a")
		},
		"H4 before any term": func(s *story) {
			s.work(0, "a", 0)
			s.lead(1, "a", 1)
		},
		"H4 after the demotion": func(s *story) {
			s.lead(0, "a", 1)
			s.follow(5, "a")
			s.work(5.1, "a", 1)
		},
		"H4 after the process": func(s *story) {
			s.lead(0, "a", 1)
			s.die(5, "a")
			s.work(5.1, "a", 1)
		},
		"H4 under the fence of another term": func(s *story) {
			s.lead(0, "a", 1)
			s.follow(5, "a")
			s.lead(6, "a", 2)
			s.work(7, "a", 1)
		},
		"H4 in the old term after a pause": func(s *story) {
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Pause)
			s.heal(10, "a", leadertest.Pause)
			s.work(10.1, "a", 1)
			s.follow(10.2, "a")
		},
		"H4 after a short pause that lost the lock": func(s *story) {
			s.grant(0, 11, "a")
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Pause)
			s.release(8.2, 11)
			s.heal(8.3, "a", leadertest.Pause)
			s.work(8.4, "a", 1)
			s.follow(8.5, "a")
		},
		"H4 between two pauses": func(s *story) {
			s.grant(0, 11, "a")
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Pause)
			s.release(9, 11)
			s.heal(10, "a", leadertest.Pause)
			s.work(10.5, "a", 1)
			s.hit(10.6, "a", leadertest.Pause)
			s.heal(10.8, "a", leadertest.Pause)
			s.follow(11, "a")
		},
		"H4 in a cut that goes on": func(s *story) {
			s.grant(0, 11, "a")
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Isolated)
			s.release(5, 11)
			s.hit(6, "a", leadertest.Pause) // keeps the term from ending
			s.heal(8, "a", leadertest.Pause)
			s.work(8.1, "a", 1)
			s.follow(8.2, "a")
		},
		"H4 in a pause that the lock outlives": func(s *story) {
			s.grant(0, 11, "a")
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Pause)
			s.work(8.1, "a", 1)
			s.heal(8.2, "a", leadertest.Pause)
		},
		"H5 the term goes on": func(s *story) {
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Partition)
			s.counted(7.1, 0) // ends the history with the term open
		},
		"H5 a term that began during the cut": func(s *story) {
			s.hit(0, "a", leadertest.Partition)
			s.lead(1, "a", 1)
			s.follow(3.1, "a")
		},
		"H6 an orphan": func(s *story) {
			s.grant(0, 11, "a")
			s.hit(5, "a", leadertest.Partition)
			s.release(9.1, 11)
		},
		"H6 a lock that was granted during the cut": func(s *story) {
			s.hit(0, "a", leadertest.Partition)
			s.grant(1, 11, "a")
			s.counted(5.1, 0)
		},
		"H6 a cut does not excuse the server": func(s *story) {
			s.grant(0, 11, "a")
			s.hit(5, "a", leadertest.Partition)
			s.hit(5, "a", leadertest.Terminated)
			s.release(5.1, 11)
		},
		"H6 one backend of several": func(s *story) {
			s.grant(0, 11, "")
			s.add(5, leadertest.Event{Kind: leadertest.FaultBegan, Replica: "a", Fault: leadertest.Terminated, PID: 11})
			s.release(5.1, 11)
		},
		"H7 nobody takes the lock": func(s *story) {
			s.start(0, "a")
			s.start(0, "b")
			s.grant(1, 11, "a")
			s.release(5, 11)
			s.grant(6.1, 12, "b")
		},
		"H7 nobody takes the lock at first": func(s *story) {
			s.start(0, "a")
			s.grant(2.1, 11, "a")
		},
		"H7 nobody takes the lock in the end": func(s *story) {
			s.start(0, "a")
			s.grant(1, 11, "a")
			s.release(5, 11)
			s.counted(6.1, 0)
		},
		"H7 a start ends a kill": func(s *story) {
			s.start(0, "a")
			s.grant(1, 11, "a")
			s.hit(5, "a", leadertest.Kill)
			s.release(5, 11)
			s.start(6, "a")
			s.counted(8.1, 0)
		},
		"H8 a value is missing": func(s *story) {
			s.increment(0, leadertest.Incremented, "a", 1)
			s.increment(1, leadertest.Incremented, "a", 3)
			s.counted(2, 3)
		},
		"H8 a value comes twice": func(s *story) {
			s.increment(0, leadertest.Incremented, "a", 1)
			s.increment(1, leadertest.Incremented, "b", 1)
		},
		"H8 the last value is missing": func(s *story) {
			s.increment(0, leadertest.Incremented, "a", 1)
			s.counted(1, 2)
		},
		"H8 the counter went back": func(s *story) {
			s.increment(0, leadertest.Incremented, "a", 1)
			s.increment(1, leadertest.Incremented, "a", 2)
			s.counted(2, 1)
		},
		"H8 the first value is 0": func(s *story) {
			s.increment(0, leadertest.Incremented, "a", 0)
			s.increment(1, leadertest.Incremented, "a", 1)
		},
		"H8 an attempt that was refused explains nothing": func(s *story) {
			s.increment(0, leadertest.IncrementTried, "a", 1)
			s.increment(1, leadertest.IncrementRefused, "a", 1)
			s.increment(2, leadertest.Incremented, "b", 2)
		},
		"H9 a term without the lock": func(s *story) {
			s.grant(0, 11, "a")
			s.lead(1, "b", 1)
		},
		"H9 a term after the lock": func(s *story) {
			s.grant(0, 11, "a")
			s.release(1, 11)
			s.lead(1.1, "a", 1)
		},
		"H9 a term too late after the loss": func(s *story) {
			s.grant(0, 11, "a")
			s.hit(0.1, "a", leadertest.Terminated)
			s.release(0.1, 11)
			s.lead(1.2, "a", 1)
		},
		"H9 a term without the lock beside a fault": func(s *story) {
			s.grant(0, 11, "a")
			s.hit(0.5, "b", leadertest.Terminated)
			s.lead(1, "b", 1)
		},
		"H0 unknown kind":            func(s *story) { s.add(0, leadertest.Event{Kind: "coffee"}) },
		"H0 unknown fault":           func(s *story) { s.hit(0, "a", "coffee") },
		"H0 nobody":                  func(s *story) { s.lead(0, "", 1) },
		"H0 nobody's fault":          func(s *story) { s.hit(0, "", leadertest.Pause) },
		"H0 the server starts twice": func(s *story) { s.heal(0, "", leadertest.ServerRestart) },
		"H0 a heal without a cut":    func(s *story) { s.heal(0, "a", leadertest.Partition) },
		"H0 cut twice": func(s *story) {
			s.hit(0, "a", leadertest.Partition)
			s.hit(1, "a", leadertest.Partition)
		},
	}
}

func TestCheckRejectsByExactlyTheRuleThatIsBroken(t *testing.T) {
	for name, tell := range badStories() {
		t.Run(name, func(t *testing.T) {
			var s story
			tell(&s)
			rule, _, _ := strings.Cut(name, " ")
			_, found := s.wantRules(t, 0, rule)
			if len(found) != 1 {
				t.Errorf("%d violations, want 1: %v", len(found), found)
			}
			for _, v := range found {
				if v.At.Before(s[0].At) || v.At.After(s[len(s)-1].At) || v.Text == "" {
					t.Errorf("violation of no moment of the history: %v", v)
				}
			}
		})
	}
}

// goodStories returns histories that look bad at first sight.
func goodStories() map[string]func(*story) {
	return map[string]func(*story){
		"nothing": func(*story) {},
		"an open term at the end": func(s *story) {
			s.start(0, "a")
			s.grant(0.5, 11, "a")
			s.lead(0.5, "a", 1)
			s.work(3, "a", 1)
		},
		"work at both ends of a term": func(s *story) {
			s.lead(0, "a", 1)
			s.work(0, "a", 1)
			s.follow(5, "a")
			s.work(5, "a", 1)
		},
		"the fence is told late": func(s *story) {
			s.lead(0, "a", 0)
			s.lead(1, "a", 7)
			s.follow(5, "a")
			s.lead(6, "b", 8)
		},
		"work during a cut": func(s *story) {
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Partition)
			s.work(6.9, "a", 1)
			s.follow(7, "a")
		},
		"work in a term that began during the cut": func(s *story) {
			s.hit(0, "a", leadertest.Partition)
			s.lead(1.5, "a", 1)
			s.work(3.2, "a", 1)
			s.follow(3.5, "a")
		},
		"a term right after a long cut": func(s *story) {
			s.hit(0, "a", leadertest.Partition)
			s.heal(5, "a", leadertest.Partition)
			s.lead(5, "a", 1)
			s.work(5.1, "a", 1)
		},
		"a term and a lock that began during the cut": func(s *story) {
			s.hit(0, "a", leadertest.Partition)
			s.grant(1, 11, "a")
			s.lead(1, "a", 1)
			s.follow(3, "a")
			s.release(5, 11)
		},
		"cut, healed and cut at one moment": func(s *story) {
			s.hit(1, "a", leadertest.Partition)
			s.heal(1, "a", leadertest.Partition)
			s.hit(1, "a", leadertest.Partition)
			s.heal(2, "a", leadertest.Partition)
		},
		"a cut that heals": func(s *story) {
			s.grant(0, 11, "a")
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Partition)
			s.heal(6.9, "a", leadertest.Partition)
			s.work(20, "a", 1)
		},
		"a pause that the session outlives": func(s *story) {
			s.grant(0, 11, "a")
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Pause)
			s.heal(8.9, "a", leadertest.Pause)
			s.work(9, "a", 1)
			s.work(20, "a", 1)
		},
		"a pause that may have been outlived": func(s *story) {
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Pause)
			s.heal(8.9, "a", leadertest.Pause)
			s.work(9, "a", 1)
		},
		"a paused process that leads in its own eyes": func(s *story) {
			s.lead(0, "a", 1)
			s.work(5, "a", 1)
			s.hit(5, "a", leadertest.Pause)
			s.lead(9, "b", 2)
			s.heal(30, "a", leadertest.Pause)
			s.follow(30.5, "a")
		},
		"a paused process that is killed": func(s *story) {
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Pause)
			s.lead(9, "b", 2)
			s.hit(30, "a", leadertest.Kill)
			s.die(30.1, "a")
		},
		"a cut, and a pause before it is noticed": func(s *story) {
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Partition)
			s.hit(6.5, "a", leadertest.Pause)
			s.lead(9.1, "b", 2)
			s.heal(9.4, "a", leadertest.Pause)
			s.follow(9.5, "a")
		},
		"a terminated backend, and a cut before it is noticed": func(s *story) {
			s.grant(0, 11, "a")
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Terminated)
			s.release(5, 11)
			s.hit(5.5, "a", leadertest.Partition)
			s.grant(5.6, 12, "b")
			s.lead(5.6, "b", 2)
			s.follow(7.5, "a")
		},
		"a term whose session is gone already": func(s *story) {
			s.grant(0, 11, "a")
			s.hit(0.1, "a", leadertest.Terminated)
			s.release(0.1, 11)
			s.lead(0.4, "a", 1)
			s.follow(1, "a")
		},
		"another backend is terminated": func(s *story) {
			s.grant(0, 11, "a")
			s.lead(0, "a", 1)
			s.add(5, leadertest.Event{Kind: leadertest.FaultBegan, Replica: "a", Fault: leadertest.Terminated, PID: 99})
			s.work(20, "a", 1)
		},
		"a stop while cut off": func(s *story) {
			s.grant(0, 11, "a")
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Partition)
			s.add(5.2, leadertest.Event{Kind: leadertest.FaultBegan, Replica: "a", Fault: leadertest.Terminated, PID: 99})
			s.hit(5.5, "a", leadertest.CleanStop)
			s.follow(5.5, "a")
			s.release(9, 11)
		},
		"a pause that the session outlives, and its end later": func(s *story) {
			s.grant(0, 11, "a")
			s.lead(0, "a", 1)
			s.hit(5, "a", leadertest.Pause)
			s.heal(8.9, "a", leadertest.Pause)
			s.hit(15, "a", leadertest.Terminated)
			s.release(15, 11)
			s.work(15.9, "a", 1)
			s.follow(16, "a")
		},
		"a grant that names nobody may be anybody's": func(s *story) {
			s.grant(0, 11, "a")
			s.release(1, 11)
			s.grant(2, 12, "")
			s.lead(2, "b", 1)
		},
		"the process has ended": func(s *story) {
			s.start(0, "b")
			s.grant(1, 11, "b")
			s.die(5, "b")
			s.release(5, 11)
			s.counted(20, 0)
		},
		"nobody is healthy": func(s *story) {
			s.start(0, "a")
			s.start(0, "b")
			s.grant(1, 11, "a")
			s.hit(5, "b", leadertest.Partition)
			s.hit(6, "a", leadertest.Kill)
			s.release(6, 11)
			s.heal(20, "b", leadertest.Partition)
			s.grant(22, 12, "b")
			s.release(22, 12)
		},
		"a start takes two intervals": func(s *story) {
			s.start(0, "a")
			s.grant(1, 11, "a")
			s.hit(5, "a", leadertest.Kill)
			s.release(5, 11)
			s.start(9, "a")
			s.grant(11, 12, "a")
		},
		"the only replica has to notice a restart first": func(s *story) {
			s.start(0, "a")
			s.grant(1, 11, "a")
			s.lead(1, "a", 1)
			s.hit(5, "", leadertest.ServerRestart)
			s.heal(5.1, "", leadertest.ServerRestart)
			s.follow(6, "a")
			s.grant(7, 12, "a")
			s.lead(7, "a", 2)
		},
		"a watcher sees the release after the restart": func(s *story) {
			s.start(0, "a")
			s.grant(1, 11, "a")
			s.hit(5, "", leadertest.ServerRestart)
			s.heal(8, "", leadertest.ServerRestart)
			s.grant(8.5, 12, "a")
			s.release(8.6, 11)
		},
		"a replica leads before the restart is noted as over": func(s *story) {
			s.start(0, "a")
			s.grant(1, 11, "a")
			s.hit(5, "", leadertest.ServerRestart)
			s.grant(7.9, 12, "a")
			s.lead(7.9, "a", 1)
			s.heal(8, "", leadertest.ServerRestart)
			s.counted(20, 0)
		},
		"a lost answer to an increment": func(s *story) {
			s.increment(0, leadertest.IncrementTried, "a", 1)
			s.increment(1, leadertest.IncrementTried, "b", 2)
			s.increment(2, leadertest.Incremented, "b", 2)
			s.increment(3, leadertest.IncrementTried, "a", 3)
			s.counted(4, 3)
		},
		"an attempt that was lost": func(s *story) {
			s.increment(0, leadertest.Incremented, "a", 1)
			s.increment(1, leadertest.IncrementTried, "a", 2)
			s.counted(2, 1)
		},
		"terms without lock events": func(s *story) {
			s.start(0, "a")
			s.lead(10, "a", 1)
		},
	}
}

func TestCheckAcceptsWhatKeepsThePromises(t *testing.T) {
	for name, tell := range goodStories() {
		t.Run(name, func(t *testing.T) {
			var s story
			tell(&s)
			s.wantRules(t, 0, "")
		})
	}
}

func TestSlackComesOnTopOfEachBound(t *testing.T) {
	for name, tell := range badStories() {
		if strings.HasPrefix(name, "H0") || strings.HasPrefix(name, "H8") ||
			name == "H2 a fence comes twice" || name == "H9 a term without the lock" {
			continue // no time excuses these
		}
		t.Run(name, func(t *testing.T) {
			var s story
			tell(&s)
			s.wantRules(t, 6*time.Second, "")
		})
	}
}

func TestAHoldTooShortToBeSeenIsNoViolation(t *testing.T) {
	const slack = 20 * time.Millisecond
	var s story
	s.start(0, "a")
	s.start(0, "b")
	s.grant(1, 11, "a")
	s.lead(1, "a", 1)
	s.hit(5, "a", leadertest.CleanStop)
	s.follow(5, "a")
	s.release(5, 11)
	s.lead(5.9, "b", 2) // unseen: its backend is terminated at once
	s.add(5.91, leadertest.Event{Kind: leadertest.FaultBegan, Replica: "b", Fault: leadertest.Terminated, PID: 12})
	s.start(5.92, "c")
	s.grant(6.4, 13, "c")
	s.lead(6.4, "c", 3)
	s.follow(6.8, "b")
	s.hit(7, "c", leadertest.StepDown)
	s.follow(7, "c")
	s.release(7, 13)
	s.start(7.1, "a")
	s.lead(7.5, "a", 4) // unseen: it steps down at once
	s.hit(7.51, "a", leadertest.StepDown)
	s.follow(7.51, "a")
	s.grant(8.4, 15, "b")
	s.lead(8.4, "b", 5)
	s.wantRules(t, slack, "")
	s.wantRules(t, slack/5, "H3 H9")
}

// Of two terms that began in one moment either may be the older, which a fault may have hit.
func TestTermsThatBeganTogetherMayHaveEitherOrder(t *testing.T) {
	for _, hit := range []string{"a", "b"} {
		var s story
		s.start(0, "a")
		s.start(0, "b")
		s.lead(1, hit, 1)
		s.hit(1, hit, leadertest.Isolated)
		s.lead(1, map[string]string{"a": "b", "b": "a"}[hit], 2)
		s.follow(2.9, hit)
		s.wantRules(t, 0, "")
	}
}

func TestAUnitBelongsToTheTermOfItsFence(t *testing.T) {
	var s story
	s.lead(0, "a", 0)
	s.follow(5, "a")
	s.lead(5.02, "a", 7)
	s.work(4.99, "a", 7) // by a clock that is late
	s.wantRules(t, 50*time.Millisecond, "")
}

func TestALateFenceBeginsNoTerm(t *testing.T) {
	var s story
	s.lead(0, "a", 0)
	s.lead(1, "a", 7)
	s.lead(2, "a", 0)
	s.lead(3, "a", 8)
	if report, _ := s.check(t, 0, 0); report.Terms != 2 {
		t.Errorf("%d terms, want 2: one of fence 7, one of fence 8", report.Terms)
	}
}

func TestWorkEndsWithItsProcess(t *testing.T) {
	var s story
	s.lead(0, "a", 1)
	s.workUntil(1, 30, "a", 1)
	s.follow(2, "a")
	s.die(3, "a")
	if report, _ := s.check(t, 0, 0); report.LongestTail != time.Second {
		t.Errorf("LongestTail = %v, want the second until the process ended", report.LongestTail)
	}
}

func TestLongListsAreCutShort(t *testing.T) {
	var s story
	for i := range 1000 {
		s.work(float64(i), "a", 0)
	}
	_, found := s.check(t, 0, 0)
	if last := found[len(found)-1]; len(found) != 11 || last.Text != "990 more violations" {
		t.Errorf("%d violations, the last is %v; want 10 and one that counts 990 more", len(found), last)
	}
}
