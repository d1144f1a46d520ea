package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// message is an event as a reader gets it.
type message struct {
	id, name string
	data     map[string]any
}

// String tells what the event is about.
func (m message) String() string {
	text := m.name
	for _, key := range []string{"target", "verdict", "pid", "end"} {
		if value, ok := m.data[key]; ok {
			text += fmt.Sprint(" ", value)
		}
	}
	return text
}

// stream is a connection to /api/v1/events.
type stream struct {
	response *http.Response
	lines    *bufio.Scanner
	leave    context.CancelFunc
}

// connect reads events from the server.
func connect(t *testing.T, base, query, lastID string) *stream {
	t.Helper()
	return connectBy(t, http.DefaultClient, base, query, lastID)
}

// connectBy reads events from the server, by that client.
func connectBy(t *testing.T, client *http.Client, base, query, lastID string) *stream {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(leave)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/v1/events"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	if lastID != "" {
		request.Header.Set("Last-Event-ID", lastID)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return &stream{response: response, lines: bufio.NewScanner(response.Body), leave: leave}
}

// next returns the next event; ok is false at the end of the stream, which may cut an event short.
func (s *stream) next(t *testing.T) (m message, ok bool) {
	t.Helper()
	var data string
	for s.lines.Scan() {
		field, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch field {
		case "id":
			m.id = value
		case "event":
			m.name = value
		case "data":
			data = value
		case "":
			if m.name == "" {
				continue // after a sign of life
			}
			if err := json.Unmarshal([]byte(data), &m.data); err != nil {
				t.Fatal(err)
			}
			return m, true
		}
	}
	return m, false
}

// require reads events and compares what they are about; it returns the last one's id.
func (s *stream) require(t *testing.T, want ...string) (id string) {
	t.Helper()
	for _, w := range want {
		m, ok := s.next(t)
		if !ok || m.String() != w {
			t.Fatalf("event %q (%v), want %q", m, ok, w)
		}
		id = m.id
	}
	return id
}

// serve serves the rig's handler until the test ends.
func (r *rig) serve(t *testing.T) (base string) {
	t.Helper()
	server := httptest.NewServer(r.handler)
	t.Cleanup(server.Close)
	t.Cleanup(r.events.Close)
	return server.URL
}

// A reader gets the present state and then each change, once; one that comes back gets what it has missed, and one whose last event is not
// known begins anew.
func TestEventsTellOfEachChangeOnce(t *testing.T) {
	r := newRig(t, "one", "two")
	start := time.Now().Truncate(time.Second)
	begun := heldBy(7, "plexsphere-1", start, true)
	r.poll(t, "one", free())
	base := r.serve(t)
	s := connect(t, base, "", "")
	if got := s.response.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type %q", got)
	}
	s.require(t, "reset", "lock one unheld", "lock two unknown")
	r.poll(t, "one", free()) // no change
	r.poll(t, "one", begun)
	r.poll(t, "one", heldBy(7, "plexsphere-1", start, false))
	first := s.require(t, "term one 7", "lock one held")
	ended := begun.Changes[0]
	ended.End = start.Add(time.Second)
	r.poll(t, "one", free(ended))
	end := "term one 7 " + ended.End.UTC().Format(time.RFC3339)
	s.require(t, end, "lock one unheld")
	s.leave()

	failed := free()
	failed.Err = errors.New("refused")
	r.poll(t, "two", failed)
	r.events.Remove("two")
	last := connect(t, base, "", first).require(t, end, "lock one unheld", "lock two unknown", "removed two")
	r.poll(t, "two", failed) // it is watched again: that it is as it was is news
	last = connect(t, base, "", last).require(t, "lock two unknown")
	r.events.Remove("two")
	last = connect(t, base, "", last).require(t, "removed two")
	r.poll(t, "one", begun)
	connect(t, base, "", last).require(t, "term one 7", "lock one held")
	for _, unknown := range []string{"nonsense", "abc-1", strings.Split(last, "-")[0] + "-999", strings.Split(last, "-")[0] + "-x"} {
		connect(t, base, "", unknown).require(t, "reset", "lock one held")
	}
	connect(t, base, "?target=two", first).require(t, "lock two unknown", "removed two", "lock two unknown", "removed two")
	connect(t, base, "?target=one&datname=other", "").require(t, "reset")
}

// Events are kept for readers that come back, and no more of them than so many, however fast they come.
func TestEventsThatAreNotKeptAnyMoreResetTheReader(t *testing.T) {
	r := newRig(t, "one")
	base := r.serve(t)
	s := connect(t, base, "", "")
	s.require(t, "reset", "lock one unknown")
	r.poll(t, "one", heldBy(1, "a", time.Now(), false))
	id := s.require(t, "lock one held")
	s.leave()
	const most = 17 * 1024 // the oldest of them are dropped 1024 at a time
	for pid := range uint32(1024) {
		r.poll(t, "one", heldBy(2+pid, "a", time.Now(), false))
	}
	kept := connect(t, base, "", id)
	for range 1024 {
		kept.require(t, "lock one held")
	}
	for pid := range uint32(most - 1024) {
		r.poll(t, "one", heldBy(2000+pid, "a", time.Now(), false))
	}
	r.poll(t, "one", free())
	connect(t, base, "", id).require(t, "reset", "lock one unheld")
}

// Whoever does not read is disconnected, costs no poll any time, and can go on where it left off.
func TestEventsDoNotWaitForReaders(t *testing.T) {
	r := newRig(t, "one")
	r.events.SetTimeouts(100*time.Millisecond, time.Hour)
	base := r.serve(t)
	slow := connect(t, base, "", "")
	id := slow.require(t, "reset", "lock one unknown")
	const changes = 1000
	for i := range uint32(changes) { // far more than sockets take, of a name that fills them
		r.poll(t, "one", heldBy(1+i, strings.Repeat("x", 20_000), time.Now(), false))
	}
	const disconnected = "WARN a reader of events does not keep up and was disconnected reader=127.0.0.1:"
	pgtest.Eventually(t, time.Minute, "the slow reader is disconnected", func() (bool, string) {
		return len(r.logs.With(disconnected)) > 0, ""
	})
	got := 0
	for {
		m, ok := slow.next(t)
		if !ok {
			break
		}
		got++
		id = m.id
	}
	if got == 0 || got == changes {
		t.Errorf("the slow reader got %d of %d events, want some, and then the end", got, changes)
	}
	if lines := r.logs.With(disconnected); len(lines) != 1 {
		t.Errorf("log %q, want one line", r.logs.With(""))
	}
	for again := connect(t, base, "", id); got < changes; {
		m, ok := again.next(t)
		if !ok { // on a busy machine 100 ms are little for any reader
			again = connect(t, base, "", id)
			continue
		}
		got++
		id = m.id
		if m.data["holder"].(map[string]any)["pid"] != float64(got) {
			t.Fatalf("event %v, want that of backend %d", m.data["holder"], got)
		}
	}
}

// No reader gets in beyond the limit, nor after the end, which ends all streams.
func TestEventsLimitTheirReaders(t *testing.T) {
	r := newRig(t, "one")
	base := r.serve(t)
	var readers []*stream
	r.poll(t, "one", free()) // a state that is fresh
	for range 500 {
		readers = append(readers, connect(t, base, "", ""))
	}
	refused := r.get("/api/v1/events")
	if refused.Code != http.StatusServiceUnavailable || refused.Header().Get("Retry-After") == "" || !strings.Contains(refused.Body.String(), "500 readers") {
		t.Errorf("the 501st reader: %v", refused)
	}
	r.events.Close()
	for _, s := range readers {
		s.require(t, "reset", "lock one unheld")
		if m, ok := s.next(t); ok {
			t.Errorf("event %v after the end", m)
		}
	}
	if refused := r.get("/api/v1/events"); refused.Code != http.StatusServiceUnavailable || !strings.Contains(refused.Body.String(), "the exporter stops") {
		t.Errorf("a reader after the end: %v", refused)
	}
}

// connection is a ResponseWriter with the deadlines of a real one.
type connection struct {
	*httptest.ResponseRecorder
	written chan string
	granted *time.Duration // how long the last write that had a deadline might have taken; nil is not wanted
}

func (c connection) Write(p []byte) (int, error) {
	c.written <- string(p)
	return len(p), nil
}

func (c connection) SetWriteDeadline(deadline time.Time) error {
	if c.granted != nil && !deadline.IsZero() {
		*c.granted = time.Until(deadline)
	}
	return nil
}
func (c connection) SetReadDeadline(time.Time) error { return nil }

// Where nothing changes, a sign of life every 15 seconds lets both sides notice a dead connection. A reader has 10 seconds to take it.
func TestEventsShowSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		c := connection{httptest.NewRecorder(), make(chan string), new(time.Duration)}
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.handler.ServeHTTP(c, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/events", nil))
		}()
		if got := <-c.written; !strings.Contains(got, "event: reset") {
			t.Errorf("first %q", got)
		}
		begin := time.Now()
		for i := range 3 {
			if got := <-c.written; got != ": nothing new\n\n" || time.Since(begin) != time.Duration(i+1)*15*time.Second {
				t.Errorf("%q after %v", got, time.Since(begin))
			}
		}
		if *c.granted != 10*time.Second {
			t.Errorf("a reader has %v to take what is sent", *c.granted)
		}
		leave()
		<-done
	})
}

// stuckConnection is one whose reader takes nothing.
type stuckConnection struct{ connection }

func (stuckConnection) Write([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

// A reader that takes nothing for ten seconds is disconnected, and the log says so, once.
func TestEventsGiveUpOnAStuckReader(t *testing.T) {
	r := newRig(t, "one")
	c := stuckConnection{connection{httptest.NewRecorder(), nil, nil}}
	r.handler.ServeHTTP(c, httptest.NewRequest(http.MethodGet, "/api/v1/events", nil))
	if lines := r.logs.With("WARN a reader of events does not keep up and was disconnected reader=192.0.2.1:1234"); len(lines) != 1 {
		t.Errorf("log %q, want one line", r.logs.With(""))
	}
}

// A reader that takes what it gets, but far too slowly, is disconnected when what it has missed is not kept any more: soon, however much there was to
// send when it fell behind.
func TestEventsDropAReaderThatIsTooFarBehind(t *testing.T) {
	r := newRig(t, "one")
	c := connection{httptest.NewRecorder(), make(chan string), nil}
	r.poll(t, "one", free())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.handler.ServeHTTP(c, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/events", nil))
	}()
	<-c.written // the reset
	<-c.written // the state
	burst := func(changes int) {
		s := free()
		s.Changes = slices.Repeat(heldBy(1, "a", time.Now(), true).Changes, changes)
		r.poll(t, "one", s)
	}
	burst(5000)
	<-c.written // the first of them: the reader has begun with the burst
	burst(18 * 1024)
	written := 0
	for ended := false; !ended; {
		select {
		case <-c.written:
			written++
		case <-done:
			ended = true
		}
	}
	if written > 500 {
		t.Errorf("%d events were sent to a reader that had missed others", written)
	}
	if lines := r.logs.With("WARN a reader of events does not keep up and was disconnected reader=192.0.2.1:1234"); len(lines) != 1 {
		t.Errorf("log %q, want one line", r.logs.With(""))
	}
}
