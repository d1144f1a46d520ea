package exporter

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// silence is how long a stream may be silent before it is given up: an exporter shows a sign of life every 15 s.
const silence = 45 * time.Second

// maxLine bounds a line of the stream.
const maxLine = 1 << 20

// The names of events.
const (
	LockEvent    = "lock"    // Data is a Lock
	TermEvent    = "term"    // Data is a Term
	RemovedEvent = "removed" // Data is a Removed
	ResetEvent   = "reset"   // what follows is the present state

	// ConnectedEvent is the client's own: the exporter lets in.
	ConnectedEvent = "connected"
	// DisconnectedEvent is the client's own: nothing comes until the next ConnectedEvent. Err says why.
	DisconnectedEvent = "disconnected"
)

// Event is one change.
type Event struct {
	ID   string // empty in the client's own
	Name string
	Data json.RawMessage
	Err  error
}

// Events calls take with a ConnectedEvent and then for each event after the one with the id, until ctx ends, take fails, or the stream
// ends; it always returns why. With an empty id, or one that is not known any more, a reset and the present state come first.
func (c *Client) Events(ctx context.Context, f Filter, lastID string, take func(Event) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(silence, func() { cancel(fmt.Errorf("nothing came for %v", silence)) })
	defer silent.Stop()

	header := http.Header{"Accept": {"text/event-stream"}}
	if lastID != "" {
		header.Set("Last-Event-ID", lastID)
	}
	response, err := c.do(ctx, c.stream, "api/v1/events", f.query(), header)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := take(Event{Name: ConnectedEvent}); err != nil {
		return err
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxLine)
	var event Event
	for lines.Scan() {
		silent.Reset(silence)
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			event.ID = value
		case "event":
			event.Name = value
		case "data":
			event.Data = json.RawMessage(value)
		case "":
			if event.Name == "" {
				continue // a comment, or the line after it
			}
			if f.wants(event) {
				if err := take(event); err != nil {
					return err
				}
			}
			event = Event{}
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("exporter: events: %w", context.Cause(ctx))
	}
	if lines.Err() != nil {
		return fmt.Errorf("exporter: events: %w", lines.Err())
	}
	return fmt.Errorf("exporter: events: %w", io.ErrUnexpectedEOF)
}

// wants reports whether the filter lets an event pass.
func (f Filter) wants(event Event) bool {
	var names struct {
		Target  string `json:"target"`
		Datname string `json:"datname"`
		Lock    string `json:"lock"`
	}
	return json.Unmarshal(event.Data, &names) == nil && f.selects(names.Target, names.Datname, names.Lock)
}
