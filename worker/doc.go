// Package worker runs named workers and restarts those that fail, within a budget.
//
// A Supervisor starts all of its workers together and keeps each of them running on its own: what one does has no effect on
// the others.
//
//	          error, panic, or Goexit,
//	          budget left              ┌─────────┐
//	     ┌───────────────────────────> │ waiting │
//	     │                             └─────────┘
//	┌─────────┐ <─────────────────────────┘ after the backoff
//	│ running │
//	└─────────┘ ── error, panic, or Goexit, budget spent ──> exhausted: named by Ready, for good
//	     │
//	     └─────── nil ──> finished: never started again
//
// The end of Run's context ends every state.
//
// # Invariants
//
//   - I1: of one worker at most one call runs at a time.
//   - I2: a worker that failed runs again, or is exhausted and named by Ready; nothing stops in silence.
//   - I3: a worker is started at most 1 + Config.Restarts times within any Config.Window.
//   - I4: the end of Run's context ends a backoff at once and starts nothing any more.
//
// # Concurrency
//
// Ready is safe from any goroutine at any time. Add and Run are safe from any goroutine; Add is refused once Run has begun,
// and a second Run too. Each worker runs in a goroutine of its own, for which Run waits.
//
// # What this does not guarantee
//
// Nothing can stop a goroutine that ignores its context: a worker that hangs is neither restarted nor named by Ready, and Run
// gives up waiting for it after Config.StopTimeout. A panic in a goroutine that a worker itself has started ends the process,
// as it does everywhere in Go. A worker is not restarted because another one failed: workers that depend on each other belong
// into one.
package worker
