package leadertest

import "time"

// Event is one thing that happened in an election. As JSON it is one object on one line.
type Event struct {
	At      time.Time `json:"at"`
	Kind    Kind      `json:"kind"`
	Replica string    `json:"replica,omitempty"`
	Fence   uint64    `json:"fence,omitempty"` // of the term; 0 when it is not known
	Unit    uint64    `json:"unit,omitempty"`  // tells the running units of a replica apart
	PID     uint32    `json:"pid,omitempty"`   // of the backend
	Value   int64     `json:"value,omitempty"` // of the counter
	Fault   Fault     `json:"fault,omitempty"`
}

// Kind is what happened. Each says which fields of its Event it needs beside At; the others are ignored.
type Kind string

const (
	// TermBegan (Replica, Fence if known): the replica leads in its own eyes. Within a term it only tells the fence.
	TermBegan Kind = "term began"
	// TermEnded (Replica): the replica is a standby in its own eyes. On a standby it says nothing.
	TermEnded Kind = "term ended"
	// UnitBegan (Replica, Unit, Fence if known): work that only the leader may begin.
	UnitBegan Kind = "unit began"
	// UnitEnded (Replica, Unit).
	UnitEnded Kind = "unit ended"

	// IncrementTried (Replica, Value): a compare-and-set of a counter row to Value is about to be sent. It is optional: it
	// keeps a value whose success nobody lived to record from counting as missing.
	IncrementTried Kind = "increment tried"
	// Incremented (Replica, Value): the compare-and-set succeeded.
	Incremented Kind = "incremented"
	// IncrementRefused (Replica, Value): the compare-and-set found another value. After an error, which proves neither,
	// nothing is recorded.
	IncrementRefused Kind = "increment refused"
	// CounterRead (Value): what the counter row held in the end.
	CounterRead Kind = "counter read"

	// ProcessStarted (Replica): the replica takes part from now on. It ends all that the process before it had open, and its
	// clean stop, step-down, pause or kill.
	ProcessStarted Kind = "process started"
	// ProcessEnded (Replica): nothing of the replica runs any more. It ends its term and its units.
	ProcessEnded Kind = "process ended"

	// LockGranted (PID, Replica if known): the server shows the lock for that backend.
	LockGranted Kind = "lock granted"
	// LockReleased (PID): the server does not show it any more.
	LockReleased Kind = "lock released"

	// FaultBegan (Fault, Replica but for ServerRestart, PID if one backend was Terminated). Record it as shortly before the
	// deed as possible. A kill ends the term at that moment. A server restart ends every hold of the lock.
	FaultBegan Kind = "fault began"
	// FaultEnded (Fault, Replica but for ServerRestart). Terminated needs none.
	FaultEnded Kind = "fault ended"
)
