// Package replica is a reference API replica: the background plane that the spec lays out, on real loops.
//
// Run boots it: each surface of the registry, in surfaces.go, builds its part of the Runtime, the background leader first, so that every later one
// finds the elector there. Then the boot passes run, the supervisor starts all workers, and the replica serves /metrics and /readyz. launch.go places a loop
// where it belongs: on the leader, through a term, or on every replica.
package replica
