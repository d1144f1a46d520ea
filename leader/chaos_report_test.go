package leader_test

import (
	"maps"
	"testing"

	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// merge adds up two reports: counts as sums, the worst of both.
func merge(a, b leadertest.Report) leadertest.Report {
	sum := leadertest.Report{
		CheckInterval: b.CheckInterval, Slack: b.Slack,
		Terms: a.Terms + b.Terms, Units: a.Units + b.Units, Increments: a.Increments + b.Increments, Grants: a.Grants + b.Grants, Gaps: a.Gaps + b.Gaps,
		WorstOverlap: max(a.WorstOverlap, b.WorstOverlap), WorstGap: max(a.WorstGap, b.WorstGap),
		WorstOrphan: max(a.WorstOrphan, b.WorstOrphan), LongestTail: max(a.LongestTail, b.LongestTail),
		Faults: maps.Clone(b.Faults),
	}
	for kind, of := range a.Faults {
		with := sum.Faults[kind]
		sum.Faults[kind] = leadertest.Measured{
			Count: of.Count + with.Count, Demotion: max(of.Demotion, with.Demotion),
			LockFree: max(of.LockFree, with.LockFree), Overlap: max(of.Overlap, with.Overlap),
		}
	}
	return sum
}

// requireEventful fails when a campaign did not do what it is there for: a history in which nothing happens breaks no promise.
func requireEventful(t *testing.T, report leadertest.Report, faults []leadertest.Fault) {
	t.Helper()
	if report.Terms < 2 || report.Units == 0 || report.Increments == 0 || report.Grants < 2 || report.Gaps == 0 {
		t.Errorf("too little happened:\n%v", report)
	}
	for _, fault := range faults {
		if report.Faults[fault].Count == 0 {
			t.Errorf("no %s in the whole campaign", fault)
		}
	}
}
