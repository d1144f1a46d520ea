package leadertest

import "slices"

// Fault is what happened to a replica, or to the server.
type Fault string

// The faults that the election answers for, with bounds of its own for each.
const (
	// CleanStop is the end of the context of Run, until the replica is started again.
	CleanStop Fault = "clean stop"
	// StepDown is a term given up on request, until the replica takes part again.
	StepDown Fault = "step-down"
	// Partition is a network that drops everything, until it heals. A host that loses its power is a partition whose
	// process has ended.
	Partition Fault = "partition"
	// Terminated is the end of one backend. It has no duration.
	Terminated Fault = "backend terminated"
	// ServerRestart is a server that ends all its sessions, until it answers again.
	ServerRestart Fault = "server restart"
	// Isolated is the end of the backend, its own or with the server, and a cut network that keeps the news from its
	// client, until the network heals.
	Isolated Fault = "isolated"
	// Pause is a process that does not run, until it is resumed.
	Pause Fault = "pause"
	// Kill is the end of a process whose sockets its operating system closes, until it is started again.
	Kill Fault = "kill"
)

// Bounds are the promises of an election about one fault, in CheckIntervals from its beginning.
type Bounds struct {
	// Demote is when the replica stops leading in its own eyes. A paused process is measured from its resumption: its
	// first check is due at once, and until then it begins no work.
	Demote int
	// LockFree is when the server has freed the lock.
	LockFree int
	// NextLeader is when another replica leads, from the moment the server answers: LockFree and one check.
	NextLeader int
	// Overlap is how long two replicas may lead, each in its own eyes. Work that is running then comes on top.
	Overlap int
}

const (
	// staleAfter is when a leader begins no more work, in CheckIntervals from the last check that was answered.
	staleAfter = 3
	// nextAttempt is how long a standby waits for its next check, in CheckIntervals. One that a fault has just left may have
	// to wait as long before for an answer that does not come.
	nextAttempt = 1
)

// Bounds returns the promises about the fault, and none, which is zero, about a fault that it does not know.
func (f Fault) Bounds() Bounds {
	switch f {
	case CleanStop, StepDown, Kill:
		return Bounds{Demote: 0, LockFree: 0, NextLeader: 1, Overlap: 0}
	case Partition:
		return Bounds{Demote: 2, LockFree: 4, NextLeader: 5, Overlap: 0}
	case Terminated, ServerRestart:
		return Bounds{Demote: 1, LockFree: 0, NextLeader: 1, Overlap: 1}
	case Isolated:
		return Bounds{Demote: 2, LockFree: 0, NextLeader: 1, Overlap: 2}
	case Pause:
		return Bounds{Demote: 1, LockFree: 4, NextLeader: 5, Overlap: 0}
	default:
		return Bounds{}
	}
}

// Faults returns the faults that have bounds.
func Faults() []Fault {
	return []Fault{CleanStop, StepDown, Partition, Terminated, ServerRestart, Isolated, Pause, Kill}
}

func (f Fault) known() bool { return slices.Contains(Faults(), f) }

// lasts reports whether the fault has a duration.
func (f Fault) lasts() bool { return f != Terminated }

// heals reports whether the replica may go on as before when the fault is over soon.
func (f Fault) heals() bool { return f == Partition || f == Pause }

// silences reports whether no check of the replica is answered while the fault lasts.
func (f Fault) silences() bool { return f == Partition || f == Isolated || f == Pause }

// endsSession reports whether the server frees the lock while the replica still leads in its own eyes.
func (f Fault) endsSession() bool { return f == Terminated || f == ServerRestart || f == Isolated }

// outlivesStart reports whether the fault goes on when a process of the replica starts.
func (f Fault) outlivesStart() bool { return f == Partition || f == Isolated || f == ServerRestart }
