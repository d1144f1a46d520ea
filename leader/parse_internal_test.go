package leader

import (
	"math"
	"testing"
	"time"
)

// R18: the version that a server tells begins with its major number, whatever follows.
func TestMajorVersionReadsWhatServersTell(t *testing.T) {
	for version, want := range map[string]int{
		"15.18 (Debian 15.18-0+deb12u1)": 15, "14.0": 14, "13.23": 13, "9.6.24": 9, "19devel": 19, "18beta1": 18, "16": 16,
	} {
		if got, ok := majorVersion(version); !ok || got != want {
			t.Errorf("majorVersion(%q) = %d, %v; want %d", version, got, ok, want)
		}
	}
	for _, version := range []string{"", "PostgreSQL 15", "v15", "-1", "99999999999999999999"} {
		if got, ok := majorVersion(version); ok {
			t.Errorf("majorVersion(%q) = %d, want none", version, got)
		}
	}
}

// R9: whatever the interval, the bound is one that idle_session_timeout takes, and four intervals where those are.
func FuzzOrphanBound(f *testing.F) {
	for _, seed := range []time.Duration{1, time.Millisecond, DefaultCheckInterval, math.MaxInt32 * time.Millisecond / 4, math.MaxInt64} {
		f.Add(int64(seed))
	}
	f.Fuzz(func(t *testing.T, nanoseconds int64) {
		if nanoseconds <= 0 {
			return // New has put the default in its place
		}
		interval := time.Duration(nanoseconds)
		got := orphanBoundMillis(interval)
		if got < 1 || got > math.MaxInt32 {
			t.Fatalf("bound of %v = %d ms, out of range", interval, got)
		}
		exact := float64(nanoseconds) * 4 / float64(time.Millisecond)
		if exact >= 1 && exact < math.MaxInt32 && math.Abs(float64(got)-exact) > 1 {
			t.Fatalf("bound of %v = %d ms, want four intervals", interval, got)
		}
	})
}
