package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestRowsTellMedianSpreadRatioAndWhetherTheTargetIsMet(t *testing.T) {
	for want, r := range map[string]row{
		"| poll | µs | 20.0 (10.0 to 300) | SELECT 1 | 5.00 (4.00 to 6.00) | 4.00 | ratio at most 8.00 | yes |": {
			what: "poll", unit: "µs", ours: samples{300, 10, 20}, alternative: "SELECT 1", theirs: samples{4, 6}, atMost: 8,
		},
		"| poll | µs | 9.00 | SELECT 1 | 1.00 | 9.00 | ratio at most 8.00 | **no** |": {
			what: "poll", unit: "µs", ours: samples{9}, alternative: "SELECT 1", theirs: samples{1}, atMost: 8,
		},
		"| share | % | 2.50 (2.00 to 3.00) |  |  |  | at most 2.00 % | **no** |": {what: "share", unit: "%", ours: samples{2, 3}, limit: 2},
		"| conns |  | 0 | x | 0 |  |  |  |":                                      {what: "conns", ours: samples{0}, alternative: "x", theirs: samples{0}},
	} {
		if got := r.line(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestARowWithoutSamplesIsAnError(t *testing.T) {
	b := &bench{progress: t.Output()}
	for _, r := range []row{{what: "a"}, {what: "a", ours: samples{1}, alternative: "b"}} {
		if err := b.add(r); err == nil {
			t.Errorf("%+v is entered", r)
		}
	}
}

func TestUpdateReplacesTheTableAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "performance.md")
	if err := os.WriteFile(file, []byte("before\n"+tableBegins+"old\n"+tableEnds+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := replaceTable(file, "new\n"); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(file); string(got) != "before\n"+tableBegins+"new\n"+tableEnds+"after\n" {
		t.Errorf("%s", got)
	}
	if err := os.WriteFile(file, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replaceTable(file, "new\n"); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file without marks: %v", err)
	}
}

// docs/performance.md is what -update is for.
func TestPerformancePageHasTheTable(t *testing.T) {
	text, err := os.ReadFile("../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), tableBegins)
	table, _, ok := strings.Cut(rest, tableEnds)
	if !ok || strings.Count(table, "\n| ") < 20 {
		t.Errorf("there is no table between the marks:\n%s", table)
	}
}

func TestCPUTimeIsCounted(t *testing.T) {
	before, err := cpuOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	worked := 0
	for begin := time.Now(); time.Since(begin) < 50*time.Millisecond; {
		worked++
	}
	if after, err := cpuOf(os.Getpid()); err != nil || after <= before {
		t.Errorf("%v, then %v, %v, after %d rounds of work", before, after, err, worked)
	}
	if _, err := cpuOf(1 << 30); err == nil {
		t.Error("a process that is not there has a time")
	}
}

// The lease of the comparison must not let two lead: only who has seen the last update can make the next.
func TestLeaseRefusesWhoHasNotSeenTheLastUpdate(t *testing.T) {
	l := newLease()
	a, b := l.seenBy("a"), l.seenBy("b")
	ctx := t.Context()
	for _, s := range []*seenLease{a, b} {
		if _, _, err := s.Get(ctx); err == nil {
			t.Error("there is a lease")
		}
	}
	if err := a.Create(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := b.Create(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "b"}); err == nil {
		t.Error("b has taken the lease that a has just made")
	}
	a.cutOff()
	bounded, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if err := a.Update(bounded, resourcelock.LeaderElectionRecord{}); err == nil {
		t.Error("a replica that is cut off has updated the lease")
	}
	if record, _, err := b.Get(ctx); err != nil || record.HolderIdentity != "a" {
		t.Errorf("%+v, %v", record, err)
	}
}

func TestShareIsTakenFromPollToPoll(t *testing.T) {
	earlier, later := polls{seconds: 1, end: 100}, polls{seconds: 1.2, end: 110}
	if got := later.shareSince(earlier); got < 1.999 || got > 2.001 {
		t.Errorf("0.2 s in 10: %v %%, want 2", got)
	}
	if got := earlier.shareSince(earlier); got != 0 {
		t.Errorf("no poll: %v %%, want 0", got)
	}
}
