package exporter_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/exporter"
)

// outage lets a first connection in, cuts it, refuses for a time, and lets in again. It keeps the times and ids of what was asked.
type outage struct {
	begin time.Time
	until time.Duration

	mu    sync.Mutex
	asked []time.Duration // guarded by mu
	ids   []string        // guarded by mu
}

func (o *outage) RoundTrip(request *http.Request) (*http.Response, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	since := time.Since(o.begin)
	o.asked, o.ids = append(o.asked, since), append(o.ids, request.Header.Get("Last-Event-ID"))
	header := http.Header{"Content-Type": {"text/event-stream"}}
	switch {
	case len(o.asked) == 1:
		return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(strings.NewReader("id: e-7\nevent: reset\ndata: {}\n\n"))}, nil
	case since < o.until:
		return nil, errors.New("connection refused")
	default:
		reader, writer := io.Pipe()
		context.AfterFunc(request.Context(), func() { writer.CloseWithError(context.Canceled) })
		return &http.Response{StatusCode: 200, Header: header, Body: reader}, nil
	}
}

func TestFollowTellsOnceOfALossAndComesBackWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := &outage{begin: time.Now(), until: 10 * time.Minute}
		client, err := exporter.New("http://exporter", nil, &http.Client{Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		events, done := make(chan exporter.Event), make(chan struct{})
		go func() { defer close(done); client.Follow(ctx, exporter.Filter{}, events) }()
		var got []string
		for len(got) < 4 {
			event := <-events
			got = append(got, event.Name)
			if (event.Name == exporter.DisconnectedEvent) != (event.Err != nil) {
				t.Errorf("%s with error %v", event.Name, event.Err)
			}
		}
		if want := []string{"connected", "reset", "disconnected", "connected"}; !slices.Equal(got, want) {
			t.Errorf("got %q; want %q", got, want)
		}
		if back := time.Since(transport.begin); back > transport.until+15*time.Second {
			t.Errorf("came back after %v", back)
		}
		if n := len(transport.asked); n > 90 {
			t.Errorf("asked %d times in ten minutes", n)
		}
		if transport.ids[0] != "" || slices.ContainsFunc(transport.ids[1:], func(id string) bool { return id != "e-7" }) {
			t.Errorf("went on after the events %q", transport.ids)
		}
		cancel()
		<-done
	})
}

func TestFollowGivesUpASilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := &outage{begin: time.Now()}
		client, err := exporter.New("http://exporter", nil, &http.Client{Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		events, done := make(chan exporter.Event), make(chan struct{})
		go func() { defer close(done); client.Follow(ctx, exporter.Filter{}, events) }()
		for losses := 0; losses < 2; { // the first connection ends by itself
			if event := <-events; event.Name == exporter.DisconnectedEvent {
				losses++
			}
		}
		if silent := time.Since(transport.begin); silent < 45*time.Second || silent > 46*time.Second {
			t.Errorf("gave up after %v; want 45 s", silent)
		}
		cancel()
		<-done
	})
}
