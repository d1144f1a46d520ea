// Package leader elects at most one leader per PostgreSQL advisory lock and hands out terms of leadership.
//
// Every replica runs one Elector. The replica whose database session holds the lock leads; the others are standbys that
// try again on a fixed interval:
//
//	              lock granted, unshared and bounded
//	┌─────────┐ ───────────────────────────────────────> ┌────────┐
//	│ standby │                                          │ leader │
//	└─────────┘ <─────────────────────────────────────── └────────┘
//	     │        the session ends; SELECT 1 fails or is      │
//	     │        not answered within one CheckInterval; no   │
//	     │        good check for three; StepDown              │
//	     │                                                    │
//	     │ Run's ctx ends                        Run's ctx ends: end the term,
//	     v                                       unlock, close the connection
//	 Run returns nil <────────────────────────────────────────┘
//
// # Invariants
//
//   - I1: the replica leads only while it holds a connection whose session was granted the lock.
//   - I2: the end of a term is seen in one order: IsLeader turns false, the gauge turns 0, then the term's contexts end.
//   - I3: all of that has happened before the unlock is sent and before the connection closes.
//   - I4: a connection on which the lock was asked for goes back to the pool only after a definite refusal.
//   - I5: no statement and no acquire is without a deadline.
//   - I6: a term does not outlive its last good check by more than three CheckIntervals, and one that ended does not come back.
//
// # Concurrency
//
// IsLeader, Term and Do are safe from any goroutine at any time, before, during and after Run. Run owns the lock
// connection and everything else that changes; one Run at a time, a second one returns an error.
//
// # What this does not guarantee
//
// The lock lives in the server. A leader that lost its session learns it at once or, if the news is lost with the network,
// within two CheckIntervals, so for that time and the unit of work then running, two replicas may both work. Writes made on
// the leader have to stay correct under that: make them compare-and-set statements, or compare the Fence. A connection pooler
// in transaction mode cannot carry a session lock at all; behind one nobody leads. The rules, their bounds and the tests that
// hold them are in docs/leader.md.
package leader
