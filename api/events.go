package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/plexsphere/leader-exporter/history"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

const (
	keptEvents   = 1024 // for readers that come back
	queuedEvents = 256  // for a reader that is slow, beyond which it is disconnected
	maxReaders   = 500
)

// The names of events.
const (
	eventLock    = "lock"    // data: a Lock that is not as it was
	eventTerm    = "term"    // data: a Term that has begun or ended
	eventRemoved = "removed" // data: the target that is not watched any more
	eventReset   = "reset"   // data: {}; events may have been missed: what follows is the present state
)

// Events passes changes on to the readers of /api/v1/events. Make it with NewEvents.
type Events struct {
	epoch  string // begins each id, so that those of an earlier process are not taken for ours
	logger *slog.Logger

	mu      sync.Mutex // guards the fields below
	changes Changes
	last    uint64  // number of the last event
	recent  []event // the last ones, oldest first
	readers map[*reader]struct{}
	closed  bool
}

// event is one event, ready to be sent.
type event struct {
	number                uint64
	name                  string
	target, datname, lock string // for filters; what is empty concerns all
	data                  []byte
}

// reader is who reads events. Its channel is closed when it does not keep up, and when Events is.
type reader struct {
	address string // of the client
	queue   chan event
}

// NewEvents returns an Events without readers. It logs a line for each that does not keep up.
func NewEvents(logger *slog.Logger) *Events {
	return &Events{epoch: strconv.FormatInt(time.Now().UnixNano(), 36), logger: logger, readers: make(map[*reader]struct{})}
}

// Note tells the readers what a new snapshot of the target changes. It never waits for them.
func (e *Events) Note(target Target, s lockwatch.Snapshot) {
	locks := target.LocksOf(s, time.Now())
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, term := range s.Changes {
		e.publishLocked(event{name: eventTerm, target: target.Name, datname: term.Datname, lock: term.Lock}, termOf(history.Entry{Target: target.Name, Term: term}))
	}
	for _, lock := range e.changes.Of(target.Name, locks) {
		e.publishLocked(event{name: eventLock, target: lock.Target, datname: lock.Datname, lock: lock.Lock}, lock)
	}
}

// Remove tells the readers that the target is not watched any more.
func (e *Events) Remove(target string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changes.Forget(target)
	e.publishLocked(event{name: eventRemoved, target: target}, map[string]string{"target": target})
}

// publishLocked hands an event to all readers, and disconnects those whose queue is full.
func (e *Events) publishLocked(ev event, data any) {
	encoded, err := json.Marshal(data)
	if err != nil {
		return // these types have no value that JSON lacks
	}
	e.last++
	ev.number, ev.data = e.last, encoded
	if e.recent = append(e.recent, ev); len(e.recent) > keptEvents {
		e.recent = slices.Clone(e.recent[len(e.recent)-keptEvents:])
	}
	for r := range e.readers {
		select {
		case r.queue <- ev:
		default:
			e.tooSlowLocked(r)
		}
	}
}

// tooSlow disconnects a reader, and says so unless that was done.
func (e *Events) tooSlow(r *reader) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tooSlowLocked(r)
}

func (e *Events) tooSlowLocked(r *reader) {
	if _, connected := e.readers[r]; connected {
		e.dropLocked(r)
		e.logger.WarnContext(context.Background(), "a reader of events does not keep up and was disconnected", slog.String("reader", r.address))
	}
}

func (e *Events) dropLocked(r *reader) {
	if _, ok := e.readers[r]; ok {
		delete(e.readers, r)
		close(r.queue)
	}
}

// errBusy and errStopping are why nobody may read.
var (
	errBusy     = fmt.Errorf("%d readers of events are connected, and no more are let in", maxReaders)
	errStopping = errors.New("the exporter stops")
)

// subscribe lets a reader in. missed are the events after the one with that id; known is false when they are not known, so
// that the reader has to begin anew. now is the id of the last event.
func (e *Events) subscribe(address, lastID string) (r *reader, missed []event, known bool, now string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return nil, nil, false, "", errStopping
	case len(e.readers) >= maxReaders:
		return nil, nil, false, "", errBusy
	}
	r = &reader{address: address, queue: make(chan event, queuedEvents)}
	e.readers[r] = struct{}{}
	missed, known = e.sinceLocked(lastID)
	return r, missed, known, e.id(e.last), nil
}

// sinceLocked returns the events after the one with that id, if all of them are still known.
func (e *Events) sinceLocked(lastID string) (missed []event, known bool) {
	epoch, text, _ := strings.Cut(lastID, "-")
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil || epoch != e.epoch || number > e.last || e.last-number > uint64(len(e.recent)) {
		return nil, false
	}
	return slices.Clone(e.recent[uint64(len(e.recent))-(e.last-number):]), true
}

// unsubscribe lets a reader go.
func (e *Events) unsubscribe(r *reader) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropLocked(r)
}

// Close disconnects all readers and lets none in any more. A second call does nothing.
func (e *Events) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for r := range e.readers {
		e.dropLocked(r)
	}
}

// id is how readers know an event.
func (e *Events) id(number uint64) string { return fmt.Sprintf("%s-%d", e.epoch, number) }
