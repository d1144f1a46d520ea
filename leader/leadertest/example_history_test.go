package leadertest_test

import (
	"fmt"
	"time"

	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// A partition costs replica a its lock after four intervals, as it should. But a goes on to lead in its own eyes for three
// of them, and b takes six to follow.
func ExampleHistory_Check() {
	var h leadertest.History
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	after := func(seconds int, e leadertest.Event) {
		e.At = start.Add(time.Duration(seconds) * time.Second)
		h.Record(e)
	}
	after(0, leadertest.Event{Kind: leadertest.ProcessStarted, Replica: "a"})
	after(0, leadertest.Event{Kind: leadertest.LockGranted, Replica: "a", PID: 101})
	after(0, leadertest.Event{Kind: leadertest.TermBegan, Replica: "a", Fence: 7})
	after(1, leadertest.Event{Kind: leadertest.ProcessStarted, Replica: "b"})
	after(20, leadertest.Event{Kind: leadertest.FaultBegan, Replica: "a", Fault: leadertest.Partition})
	after(35, leadertest.Event{Kind: leadertest.TermEnded, Replica: "a"})
	after(40, leadertest.Event{Kind: leadertest.LockReleased, PID: 101})
	after(50, leadertest.Event{Kind: leadertest.LockGranted, Replica: "b", PID: 102})
	after(50, leadertest.Event{Kind: leadertest.TermBegan, Replica: "b", Fence: 8})

	report, err := h.Check(leadertest.Config{CheckInterval: 5 * time.Second})
	fmt.Println(err)
	fmt.Print(report)
	// Output:
	// leadertest: H5 at 2026-03-01T12:00:30Z: a led on until 35s after the fault "partition" at 20s: 15s, that is 3 intervals of at most 2
	// leadertest: H7 at 2026-03-01T12:00:40Z: the lock was free from 40s to 50s, and b healthy from 40s to 50s: 10s, that is 2 intervals of at most 1
	// 2 terms, 0 units, 0 increments, 2 grants; interval 5s, slack 0s
	// lock free with a healthy replica there: 1 times, at worst 2.00 of 1; work after its term: at worst 0.00
	// fault      count  demotion   lock free  overlap
	// partition  1      3.00 of 2  4.00 of 4  0.00 of 0
}
