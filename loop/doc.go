// Package loop runs work only while its replica leads, and reports how it went.
//
// A Ticker makes one pass on a fixed cadence, and asks the Leader before each: on a standby the tick does nothing. A
// WhileLeader hands a loop that paces itself the context of one term, and starts it again in the next one. A Gate is for work
// that every replica does, with a step that only one may do.
//
// What a Ticker's probe, Ready, reports:
//
//	                 ┌──────────────────────────────────────┐
//	Boot's outcome ──┤ ok                                   │
//	                 │   │ a pass fails        ^            │
//	                 │   v                     │ a pass is ok, or a standby's tick
//	                 │ that pass's error ──────┘            │
//	                 └──────────────────────────────────────┘
//
// # Invariants
//
//   - I1: of one Ticker at most one pass runs at a time, and of one WhileLeader at most one call.
//   - I2: nothing is called on a standby, except a pass by Boot.
//   - I3: a pass gets a context that ends with its term, and so does the call of a WhileLeader.
//   - I4: what a term's loss cut short is no failure: it leaves the probe as it was.
//   - I5: a pass that panics, or calls runtime.Goexit, is a pass that failed; the ticks go on.
//
// # Concurrency
//
// Ready and Gate.Open are safe from any goroutine at any time. Run and Boot exclude each other: a call while another one is
// under way returns an error. All callbacks run while Run waits for them.
//
// # What this does not guarantee
//
// The election has an overlap (see package leader): for its length two replicas may run the same pass, so passes write by
// compare-and-set statements. A pass that ignores its context goes on when the term has ended, and its loop with it. Ready
// tells of ticks that ended; a pass that hangs shows by plexsphere_background_loop_running, which stays 1.
package loop
