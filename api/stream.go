package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"
)

const (
	eventStream = "text/event-stream"

	// keepAlive is the time between two signs of life where nothing changes.
	keepAlive = 15 * time.Second
	// sendTimeout is how long a reader may take to receive an event.
	sendTimeout = 10 * time.Second
)

// stream is one answer of /api/v1/events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	events  *Events
	filter  url.Values // target, datname, lock
}

// events answers with server-sent events until the reader leaves, does not keep up, or Events is closed. With a Last-Event-ID that is
// known it begins with what was missed; else with a reset and the present state.
func (h *handler) events(w http.ResponseWriter, r *http.Request) {
	filter, err := parse(r.URL.Query(), "target", "datname", "lock")
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", eventStream)
		return // there is no body to wait for
	}
	reader, missed, known, now, err := h.cfg.Events.subscribe(r.RemoteAddr, r.Header.Get("Last-Event-ID"))
	if err != nil {
		busy(w, err)
		return
	}
	defer h.cfg.Events.unsubscribe(reader)
	w.Header().Set("Content-Type", eventStream)
	s := &stream{w: w, control: http.NewResponseController(w), events: h.cfg.Events, filter: filter}
	_ = s.control.SetReadDeadline(time.Time{}) // the request has been read; the stream outlasts the server's timeout
	if known {
		err = s.sendAll(missed)
	} else {
		err = s.sendState(now, h.cfg.Targets())
	}
	if err == nil {
		err = s.follow(r, reader)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		h.cfg.Events.tooSlow(reader)
	}
}

// follow sends what comes, until the end of the queue, or until the reader has left or takes nothing.
func (s *stream) follow(r *http.Request, reader *reader) error {
	idle := time.NewTicker(keepAlive)
	defer idle.Stop()
	for {
		var err error
		select {
		case <-r.Context().Done():
			return nil
		case <-idle.C:
			err = s.write(": nothing new\n\n")
		case ev, ok := <-reader.queue:
			if !ok {
				return nil
			}
			err = s.sendAll([]event{ev})
		}
		if err != nil {
			return err
		}
	}
}

// sendState sends a reset and the present state of all locks, under the id of the last event.
func (s *stream) sendState(id string, targets []Target) error {
	if err := s.write(message(id, eventReset, []byte("{}"))); err != nil {
		return err
	}
	for _, target := range targets {
		for _, lock := range target.LocksOf(target.Source.Snapshot(), time.Now()) {
			if !s.wants(lock.Target, lock.Datname, lock.Lock) {
				continue
			}
			data, err := json.Marshal(lock)
			if err != nil {
				return err
			}
			if err := s.write(message(id, eventLock, data)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *stream) sendAll(events []event) error {
	for _, ev := range events {
		if !s.wants(ev.target, ev.datname, ev.lock) {
			continue
		}
		if err := s.write(message(s.events.id(ev.number), ev.name, ev.data)); err != nil {
			return err
		}
	}
	return nil
}

// wants reports whether the filter lets it pass; a lock that is not known of a database, and a target, concern all of it.
func (s *stream) wants(target, datname, lock string) bool {
	return matches(s.filter.Get("target"), target) &&
		(datname == "" || matches(s.filter.Get("datname"), datname)) && (lock == "" || matches(s.filter.Get("lock"), lock))
}

// message is an event as it is sent. JSON has no line end in it.
func message(id, name string, data []byte) string {
	return fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", id, name, data)
}

func (s *stream) write(text string) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}
