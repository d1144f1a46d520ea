package main

import (
	"strings"
	"testing"
	"time"
)

// at returns a sight so long after the beginning.
func at(offset time.Duration, holder string, claims ...string) sight {
	return sight{at: time.Unix(1_800_000_000, 0).Add(offset), claims: claims, holder: holder, pid: 7}
}

// unready returns the sight with probes that fail.
func unready(s sight, probes ...string) sight {
	s.unready = probes
	return s
}

func TestJudgeToleratesTheDocumentedOverlapAndNoMore(t *testing.T) {
	j := &judge{overlap: 4 * time.Second}
	for _, s := range []sight{
		at(0, "a", "a"),
		at(1*time.Second, "b", "a", "b"),
		at(5*time.Second, "b", "a", "b"), // 4 s of two claims
		at(6*time.Second, "b", "b"),
		at(7*time.Second, "b", "a", "b"),
		at(11*time.Second, "b", "a", "b"), // 4 s again
	} {
		if _, err := j.observe(s); err != nil {
			t.Errorf("at %v: %v", s.at, err)
		}
	}
	if _, err := j.observe(at(11*time.Second+time.Millisecond, "b", "a", "b")); err == nil || !strings.Contains(err.Error(), "overlap of 4s") {
		t.Errorf("two claims for longer than the overlap: %v, want an error", err)
	}
}

func TestJudgeTellsEachChangeOnce(t *testing.T) {
	j := &judge{overlap: time.Second}
	for i, step := range []struct {
		seen sight
		want string
	}{
		{at(0, ""), "no replica claims to lead, pg_locks shows nobody"},
		{at(1*time.Second, ""), ""},
		{at(2*time.Second, "a", "a"), "a claims to lead, pg_locks shows a (backend 7)"},
		{at(3*time.Second, "a", "a"), ""},
		{unready(at(3*time.Second, "a", "a"), "a: workers: x"), "a claims to lead, pg_locks shows a (backend 7); not ready: a: workers: x"},
		{at(4*time.Second, "a"), "no replica claims to lead, pg_locks shows a (backend 7)"},
		{at(5*time.Second, "a", "b"), "b claims to lead, pg_locks shows a (backend 7)"},
		{at(6*time.Second, "b", "b"), "b claims to lead, pg_locks shows b (backend 7); handed over in 2s"},
	} {
		got, err := j.observe(step.seen)
		if err != nil || got != step.want {
			t.Errorf("step %d: %q, %v; want %q", i, got, err, step.want)
		}
	}
	if j.changes != 1 {
		t.Errorf("%d changes, want 1", j.changes)
	}
}
