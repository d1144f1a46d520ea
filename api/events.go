package api

import (
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
	// keptEvents is how many events are kept at the least, for readers that come back.
	keptEvents = 1024
	// mostEvents is how many are kept at the most, however young they are: some 10 MB.
	mostEvents = 16 * keptEvents
	// batchEvents is how many a reader gets until it is looked at again whether it is too far behind.
	batchEvents = 64
	maxReaders  = 500

	// keepAlive is the time between two signs of life where nothing changes.
	keepAlive = 15 * time.Second
	// sendTimeout is how long a reader may take to receive what is sent, and how long an event is kept for readers at the least.
	sendTimeout = 10 * time.Second
)

// The names of events.
const (
	eventLock    = "lock"    // data: a Lock that is not as it was
	eventTerm    = "term"    // data: a Term that has begun or ended
	eventRemoved = "removed" // data: a Removed
	eventReset   = "reset"   // data: {}; events may have been missed: what follows is the present state
)

// Events passes changes on to the readers of /api/v1/events. Make it with NewEvents.
type Events struct {
	epoch                  string // begins each id, so that those of an earlier process are not taken for ours
	logger                 *slog.Logger
	keepAlive, sendTimeout time.Duration

	mu      sync.Mutex // guards the fields below
	changes Changes
	last    uint64        // number of the last event
	recent  []event       // the last ones, oldest first
	news    chan struct{} // closed at the next event, and at the end
	readers int
	closed  bool
}

// event is one event, ready to be sent.
type event struct {
	at                    time.Time
	name                  string
	target, datname, lock string // for filters; what is empty concerns all
	data                  []byte
}

// NewEvents returns an Events without readers. It logs a line for each that does not keep up.
func NewEvents(logger *slog.Logger) *Events {
	return &Events{
		epoch: strconv.FormatInt(time.Now().UnixNano(), 36), logger: logger, keepAlive: keepAlive, sendTimeout: sendTimeout,
		news: make(chan struct{}),
	}
}

// Note tells the readers what a new snapshot of the target changes. It never waits for them.
func (e *Events) Note(target Target, s lockwatch.Snapshot) {
	locks, now := target.LocksOf(s, time.Now()), make(present)
	now.add(target, s)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, term := range s.Changes {
		e.publishLocked(event{name: eventTerm, target: target.Name, datname: term.Datname, lock: term.Lock}, now.termOf(history.Entry{Target: target.Name, Term: term}))
	}
	changed, removed := e.changes.Of(target.Name, locks)
	for _, lock := range changed {
		e.publishLocked(event{name: eventLock, target: lock.Target, datname: lock.Datname, lock: lock.Lock}, lock)
	}
	for _, gone := range removed {
		e.publishLocked(event{name: eventRemoved, target: gone.Target, datname: gone.Datname, lock: gone.Lock}, gone)
	}
}

// Remove tells the readers that the target is not watched any more.
func (e *Events) Remove(target string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changes.Forget(target)
	e.publishLocked(event{name: eventRemoved, target: target}, Removed{Target: target})
}

// publishLocked hands an event to all readers, which wait for none of each other.
func (e *Events) publishLocked(ev event, data any) {
	encoded, err := json.Marshal(data)
	if err != nil {
		return // these types have no value that JSON lacks
	}
	e.last++
	ev.at, ev.data = time.Now(), encoded
	e.recent = append(e.recent, ev)
	e.trimLocked(ev.at)
	if !e.closed {
		close(e.news)
		e.news = make(chan struct{})
	}
}

// trimLocked drops old events, many at a time, since those that stay are copied.
func (e *Events) trimLocked(now time.Time) {
	tooMany := len(e.recent) - mostEvents
	old := 0
	for old < len(e.recent)-keptEvents && (old < tooMany || now.Sub(e.recent[old].at) > e.sendTimeout) {
		old++
	}
	if old >= keptEvents {
		e.recent = slices.Clone(e.recent[old:])
	}
}

// errBusy and errStopping are why nobody may read, errBehind is why a reader is disconnected.
var (
	errBusy     = fmt.Errorf("%d readers of events are connected, and no more are let in", maxReaders)
	errStopping = errors.New("the exporter stops")
	errBehind   = errors.New("the reader does not keep up")
)

// subscribe lets a reader in, until it is let go by unsubscribe. The reader goes on after the event with that number; known is false when the id
// says none that is kept, so that it has to begin anew.
func (e *Events) subscribe(lastID string) (number uint64, known bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return 0, false, errStopping
	case e.readers >= maxReaders:
		return 0, false, errBusy
	}
	e.readers++
	epoch, text, _ := strings.Cut(lastID, "-")
	number, err = strconv.ParseUint(text, 10, 64)
	if err != nil || epoch != e.epoch || number > e.last || !e.keptLocked(number) {
		return e.last, false, nil
	}
	return number, true, nil
}

// keptLocked reports whether all events after the one with that number are kept.
func (e *Events) keptLocked(number uint64) bool { return e.last-number <= uint64(len(e.recent)) }

// after returns the next events, at most batchEvents, after the one with that number, or else a channel that is closed when there may be one. It returns
// errBehind when some of them are not kept any more, and errStopping after Close.
func (e *Events) after(number uint64) (events []event, news <-chan struct{}, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return nil, nil, errStopping
	case !e.keptLocked(number):
		return nil, nil, errBehind
	}
	// What is published later stands behind these, or in a copy.
	events = e.recent[uint64(len(e.recent))-(e.last-number):]
	return events[:min(len(events), batchEvents)], e.news, nil
}

// unsubscribe lets a reader go.
func (e *Events) unsubscribe() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readers--
}

// Close disconnects all readers and lets none in any more. A second call does nothing.
func (e *Events) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed = true
		close(e.news)
	}
}

// id is how readers know an event.
func (e *Events) id(number uint64) string { return fmt.Sprintf("%s-%d", e.epoch, number) }
