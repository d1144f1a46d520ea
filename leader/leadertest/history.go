package leadertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/plexsphere/leader-exporter/leader"
)

// History is what happened in an election, as replicas and server saw it. The zero value is an empty one. All methods are
// safe from any goroutine, Check included.
type History struct {
	// Sink, unless nil, gets each event as a line of JSON, in one Write, before the method that records it returns. A
	// process that may be killed hands its history to its parent that way; see Merge.
	Sink io.Writer

	mu      sync.Mutex // guards the fields below
	events  []Event    // what is in it never changes
	units   uint64     // numbered so far
	sinkErr error
}

// Record adds an event. One without a moment gets the present one. Events may come in any order; those of one moment are
// taken in the order of their recording.
func (h *History) Record(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.At.IsZero() {
		e.At = time.Now()
	}
	e.At = e.At.Round(0) // a monotonic reading cannot be compared with that of another process
	h.events = append(h.events, e)
	if h.Sink == nil || h.sinkErr != nil {
		return
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = h.Sink.Write(append(line, '\n'))
	}
	if err != nil {
		h.sinkErr = fmt.Errorf("leadertest: hand on an event: %w", err)
	}
}

// Events returns a copy of what was recorded, in that order.
func (h *History) Events() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// Started records that the replica takes part from now on.
func (h *History) Started(replica string) { h.Record(Event{Kind: ProcessStarted, Replica: replica}) }

// Ended records that nothing of the replica runs any more.
func (h *History) Ended(replica string) { h.Record(Event{Kind: ProcessEnded, Replica: replica}) }

// TermBegan records that the replica leads, or the fence of the term that Registerer's gauge has already seen.
func (h *History) TermBegan(replica string, fence uint64) {
	h.Record(Event{Kind: TermBegan, Replica: replica, Fence: fence})
}

// TermEnded records that the replica does not lead any more.
func (h *History) TermEnded(replica string) { h.Record(Event{Kind: TermEnded, Replica: replica}) }

// Do is Do of the replica's elector, with a record of each begin and end of fn and of the fence of its term.
func (h *History) Do(ctx context.Context, elector *leader.Elector, replica string, fn func(context.Context) error) (bool, error) {
	return elector.Do(ctx, func(ctx context.Context) error {
		fence, _ := leader.FenceFrom(ctx)
		defer h.UnitBegan(replica, fence)()
		return fn(ctx)
	})
}

// UnitBegan records the begin of a unit of work, and its end when the function that it returns is called.
func (h *History) UnitBegan(replica string, fence uint64) (ended func()) {
	h.mu.Lock()
	h.units++
	unit := h.units
	h.mu.Unlock()
	h.Record(Event{Kind: UnitBegan, Replica: replica, Unit: unit, Fence: fence})
	return func() { h.Record(Event{Kind: UnitEnded, Replica: replica, Unit: unit}) }
}

// IncrementTried records that the replica is about to set the counter to value.
func (h *History) IncrementTried(replica string, value int64) {
	h.Record(Event{Kind: IncrementTried, Replica: replica, Value: value})
}

// Incremented records that the replica has set the counter to value.
func (h *History) Incremented(replica string, value int64) {
	h.Record(Event{Kind: Incremented, Replica: replica, Value: value})
}

// IncrementRefused records that the counter was not what the replica expected when it tried to set it to value.
func (h *History) IncrementRefused(replica string, value int64) {
	h.Record(Event{Kind: IncrementRefused, Replica: replica, Value: value})
}

// CounterRead records what the counter held in the end.
func (h *History) CounterRead(value int64) { h.Record(Event{Kind: CounterRead, Value: value}) }

// LockGranted records that the server gave the lock to that backend, of that replica or, if it is "", of one unknown.
func (h *History) LockGranted(pid uint32, replica string) {
	h.Record(Event{Kind: LockGranted, PID: pid, Replica: replica})
}

// LockReleased records that the backend does not hold the lock any more.
func (h *History) LockReleased(pid uint32) { h.Record(Event{Kind: LockReleased, PID: pid}) }

// FaultBegan records that the fault hits the replica from now on.
func (h *History) FaultBegan(replica string, fault Fault) {
	h.Record(Event{Kind: FaultBegan, Replica: replica, Fault: fault})
}

// FaultEnded records that the replica is rid of the fault.
func (h *History) FaultEnded(replica string, fault Fault) {
	h.Record(Event{Kind: FaultEnded, Replica: replica, Fault: fault})
}

// ServerDown records that the server ends its sessions and answers nobody: a ServerRestart begins.
func (h *History) ServerDown() { h.Record(Event{Kind: FaultBegan, Fault: ServerRestart}) }

// ServerUp records that the server answers again.
func (h *History) ServerUp() { h.Record(Event{Kind: FaultEnded, Fault: ServerRestart}) }
