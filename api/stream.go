package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"time"
)

const eventStream = "text/event-stream"

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
	filter, err := parse(r.URL.RawQuery, "target", "datname", "lock")
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
	number, known, err := h.cfg.Events.subscribe(r.Header.Get("Last-Event-ID"))
	if err != nil {
		busy(w, err)
		return
	}
	defer h.cfg.Events.unsubscribe()
	w.Header().Set("Content-Type", eventStream)
	s := &stream{w: w, control: http.NewResponseController(w), events: h.cfg.Events, filter: filter}
	_ = s.control.SetReadDeadline(time.Time{}) // the request has been read; the stream outlasts the server's timeout
	if known {
		err = s.write(": what was missed follows\n\n") // there may be nothing, and the reader waits for an answer
	} else {
		err = s.sendState(number, h.cfg.Targets())
	}
	if err == nil {
		err = s.follow(r.Context(), number)
	}
	if errors.Is(err, errBehind) || errors.Is(err, os.ErrDeadlineExceeded) {
		h.cfg.Events.logger.WarnContext(r.Context(), "a reader of events does not keep up and was disconnected", slog.String("reader", r.RemoteAddr))
	}
}

// follow sends the events after the one with that number, until the reader has left, does not keep up, or Events is closed.
func (s *stream) follow(ctx context.Context, number uint64) error {
	idle := time.NewTicker(s.events.keepAlive)
	defer idle.Stop()
	for {
		events, news, err := s.events.after(number)
		if err != nil {
			return err
		}
		if len(events) > 0 {
			if err := s.send(number, events); err != nil {
				return err
			}
			number += uint64(len(events))
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-news:
		case <-idle.C:
			if err := s.write(": nothing new\n\n"); err != nil {
				return err
			}
		}
	}
}

// sendState sends a reset and the present state of all locks, under the id of the last event, which has that number.
func (s *stream) sendState(number uint64, targets []Target) error {
	id := s.events.id(number)
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

// send sends the events that follow the one with that number.
func (s *stream) send(number uint64, events []event) error {
	for _, ev := range events {
		number++
		if !s.wants(ev.target, ev.datname, ev.lock) {
			continue
		}
		if err := s.write(message(s.events.id(number), ev.name, ev.data)); err != nil {
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

// write sends a text. Its error is os.ErrDeadlineExceeded where the reader does not take it within sendTimeout. No deadline is left: HTTP/2 would end a stream
// that is idle when it comes.
func (s *stream) write(text string) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(s.events.sendTimeout)); err != nil {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	if err := s.control.Flush(); err != nil {
		return err
	}
	return s.control.SetWriteDeadline(time.Time{})
}
