// Package lockwatch polls pg_locks and tells one term of a lock's holder from the next.
//
// A Watcher keeps one connection to one target and asks it once every interval, whatever the number of readers:
//
//	                  poll answered
//	┌──────┐ ─────────────────────────────> ┌────┐
//	│ down │                                │ up │ ─┐ poll answered
//	└──────┘ <───────────────────────────── └────┘ <┘
//	    poll failed, with one reason; or no poll for thrice the time between two
//
// # Invariants
//
//   - I1: a Snapshot says who holds the lock only when the last poll was answered; otherwise it says that it does not know.
//   - I2: a reader never waits for the database.
//   - I3: a term is told from another by the server's start and the backend's pid and start, or without the backend's start where the
//     role cannot see it.
//   - I4: ages and the moments of terms come from the server's clock, in the same statement as the rows.
//   - I5: time in which the server could not be asked counts as neither held nor unheld, and a handover in it as unmeasured.
//   - I6: a term has one end: it goes on or has ended by the first answer that tells of its lock on its cluster, and no other tells of it.
//   - I7: on a server in recovery nothing is said about locks: it grants advisory locks of its own.
//
// # Concurrency
//
// Run owns the connection and the books. Snapshot is safe from any goroutine; what it returns is never changed afterwards.
//
// # What this does not guarantee
//
// Everything is seen at the resolution of the poll interval: a term that begins and ends between two polls is not seen, and
// a moment is late by up to one interval.
package lockwatch
