package plugin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/exporter"
)

const (
	// heartbeat is the time between two frames of a stream where nothing changes: ages go on, and a panel drops old rows.
	heartbeat = 10 * time.Second
	// maxChannel is Grafana's limit on the length of a channel.
	maxChannel = 160
)

// errDisposed ends the streams of an instance whose settings have changed; Grafana then subscribes to the new one.
var errDisposed = errors.New("the settings of the data source have changed")

// attach lets the frame go on by a channel, whose path holds the filter.
func (d *Datasource) attach(frame *data.Frame, kind string, f exporter.Filter) {
	encoded, _ := json.Marshal(f) // lists of strings
	channel := fmt.Sprintf("ds/%s/%s/%s", d.uid, kind, base64.RawURLEncoding.EncodeToString(encoded))
	if len(channel) > maxChannel {
		frame.AppendNotices(data.Notice{Severity: data.NoticeSeverityWarning, Text: "Not live: the names are too long for a channel of Grafana Live. Select fewer."})
		return
	}
	frame.Meta.Channel = channel
}

// parsePath undoes attach.
func parsePath(path string) (kind string, f exporter.Filter, err error) {
	kind, encoded, _ := strings.Cut(path, "/")
	if kind != typeCurrent && kind != typeEvents {
		return "", f, fmt.Errorf("no such stream: %q", path)
	}
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		return "", f, fmt.Errorf("stream %q: %w", path, err)
	}
	return kind, f, nil
}

// SubscribeStream lets in who asks for a stream that exists.
func (d *Datasource) SubscribeStream(_ context.Context, request *backend.SubscribeStreamRequest) (*backend.SubscribeStreamResponse, error) {
	if _, _, err := parsePath(request.Path); err != nil || d.broken != nil {
		return &backend.SubscribeStreamResponse{Status: backend.SubscribeStreamStatusNotFound}, nil
	}
	return &backend.SubscribeStreamResponse{Status: backend.SubscribeStreamStatusOK}, nil
}

// PublishStream refuses: the streams are for reading.
func (d *Datasource) PublishStream(context.Context, *backend.PublishStreamRequest) (*backend.PublishStreamResponse, error) {
	return &backend.PublishStreamResponse{Status: backend.PublishStreamStatusPermissionDenied}, nil
}

// RunStream sends frames until ctx ends, which is no error, or the instance is disposed of, which is one. An exporter that goes
// away is tried again, ever less often.
func (d *Datasource) RunStream(ctx context.Context, request *backend.RunStreamRequest, sender *backend.StreamSender) error {
	kind, filter, err := parsePath(request.Path)
	if err != nil {
		return err
	}
	if d.broken != nil {
		return d.broken
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.disposed, func() { cancel(errDisposed) })()

	s := &stream{datasource: d, filter: filter, send: func(f *data.Frame) error { return sender.SendFrame(f, data.IncludeAll) }}
	if kind == typeCurrent {
		err = s.current(ctx)
	} else {
		err = s.events(ctx)
	}
	switch {
	case errors.Is(context.Cause(ctx), errDisposed):
		return errDisposed
	case ctx.Err() != nil:
		return nil
	default:
		return err
	}
}

// stream is one run of RunStream.
type stream struct {
	datasource *Datasource
	filter     exporter.Filter
	send       func(*data.Frame) error
	last       []exporter.Lock // what current sent
}

// start follows the exporter. stop waits for the end of that.
func (s *stream) start(ctx context.Context) (events <-chan exporter.Event, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	came, done := make(chan exporter.Event), make(chan struct{})
	go func() {
		defer close(done)
		s.datasource.exporter.Follow(ctx, s.filter, came)
	}()
	return came, func() { cancel(); <-done }
}

// current sends the state of all locks at the begin, after each change, and with each heartbeat.
func (s *stream) current(ctx context.Context) error {
	events, stop := s.start(ctx)
	defer stop()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		if err := s.sendCurrent(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-events:
			drain(events)
		case <-beat.C:
		}
	}
}

// settle is how long after a change its neighbours may come: a handover is several events, and one frame.
const settle = 20 * time.Millisecond

// drain takes the events that belong to the same change.
func drain(events <-chan exporter.Event) {
	timer := time.NewTimer(settle)
	defer timer.Stop()
	for {
		select {
		case <-events:
		case <-timer.C:
			return
		}
	}
}

// sendCurrent asks the exporter and sends what it says. When it cannot be asked, nothing is known of the locks any more.
func (s *stream) sendCurrent(ctx context.Context) error {
	answer, err := s.datasource.exporter.Locks(ctx, s.filter)
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		s.last = answer.Locks
		return s.send(currentFrame(s.last))
	}
	unknown := make([]exporter.Lock, len(s.last))
	for i, lock := range s.last {
		unknown[i] = exporter.Lock{
			Target: lock.Target, Labels: lock.Labels, Datname: lock.Datname, Lock: lock.Lock, Key: lock.Key,
			Verdict: exporter.Unknown, Error: err.Error(), At: lock.At,
		}
	}
	return s.send(currentFrame(unknown))
}

// events sends a row for each change, and one when the exporter goes away or is back. A heartbeat without rows keeps the stream alive.
func (s *stream) events(ctx context.Context) error {
	events, stop := s.start(ctx)
	defer stop()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var rows []eventRow
		select {
		case <-ctx.Done():
			return nil
		case event := <-events:
			rows = []eventRow{rowOf(event, time.Now())}
		case <-beat.C:
		}
		if err := s.send(eventsFrame(rows)); err != nil {
			return err
		}
	}
}
