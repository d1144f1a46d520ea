package plugin_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/plugin"
)

// cell returns what a row of the frame has in the field.
func cell(tb testing.TB, frame *data.Frame, field string, row int) any {
	tb.Helper()
	f, index := frame.FieldByName(field)
	if index < 0 || row >= f.Len() {
		tb.Fatalf("no row %d of %s in %d rows of %q", row, field, frame.Rows(), frame.Name)
	}
	value, _ := f.ConcreteAt(row)
	return value
}

// call asks a resource.
func call(tb testing.TB, d *plugin.Datasource, path string) (status int, body string) {
	tb.Helper()
	path, _, _ = strings.Cut(path, "?")
	err := d.CallResource(context.Background(), &backend.CallResourceRequest{Method: http.MethodGet, Path: path, URL: path},
		backend.CallResourceResponseSenderFunc(func(r *backend.CallResourceResponse) error {
			status, body = r.Status, body+string(r.Body)
			return nil
		}))
	if err != nil {
		tb.Fatal(err)
	}
	return status, strings.TrimSpace(body)
}

func recent() backend.TimeRange {
	return backend.TimeRange{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Minute)}
}

func TestDataSourceTellsOfAHandoverOnARealServer(t *testing.T) {
	database := newDatabase(t)
	e := startExporter(t, dsn(database), "127.0.0.1:0")
	d := instance(t, backend.DataSourceInstanceSettings{URL: e.url})
	e.await(t, "")
	release := lead(t, database, "api-1")
	e.await(t, "api-1")
	release()
	e.await(t, "")
	lead(t, database, "api-2")
	e.await(t, "api-2")

	var current *data.Frame
	eventually(t, func() (bool, any) {
		current = ask(t, d, "current", `{}`, recent()).Frames[0]
		return cell(t, current, "verdict", 0) != "unknown", current
	})
	for field, want := range map[string]any{
		"verdict": "held", "holder": "api-2", "holders": int64(1), "waiters": int64(0), "datname": database, "target": "default", "usename": "postgres",
	} {
		if got := cell(t, current, field, 0); got != want {
			t.Errorf("current: %s is %v; want %v", field, got, want)
		}
	}
	terms := ask(t, d, "terms", `{"locks": ["background-leader"]}`, recent()).Frames[0]
	if terms.Rows() != 2 || cell(t, terms, "holder", 0) != "api-2" || cell(t, terms, "holder", 1) != "api-1" {
		t.Errorf("terms has %d rows", terms.Rows())
	}
	eventually(t, func() (bool, any) {
		stats := ask(t, d, "stats", `{"stat": "holders"}`, recent()).Frames[0]
		value, _ := stats.Fields[0].ConcreteAt(0)
		return stats.Rows() == 1 && value == float64(1) && len(stats.Fields[0].Labels) == 3, stats
	})
	line := ask(t, d, "timeline", `{}`, recent()).Frames[0]
	var states []string
	for row := range line.Rows() {
		if state, known := line.Fields[1].ConcreteAt(row); known {
			// On a busy machine polls may be missing between two terms; only the begin of the range is surely unknown.
			if text, _ := state.(string); row == 0 || text != "unknown" {
				states = append(states, text)
			}
		}
	}
	// The exporter has seen the lock free before the first term, at one moment and not through the range.
	if want := []string{"unknown", "api-1", "no leader", "api-2"}; !slices.Equal(states, want) {
		t.Errorf("timeline is %q; want %q", states, want)
	}
	if last := line.Rows() - 1; line.Fields[1].NilAt(last) == false || line.Fields[0].At(last).(time.Time).After(time.Now()) {
		t.Error("the timeline does not end now")
	}
	annotations := ask(t, d, "annotations", `{}`, recent()).Frames[0]
	var titles []string
	for row := range annotations.Rows() {
		titles = append(titles, annotations.Fields[3].At(row).(string))
	}
	slices.Sort(titles) // the last poll that saw nobody began before it ended, and so may the region of the next term
	if want := []string{"api-1 leads", "api-2 leads", "no leader"}; !slices.Equal(titles, want) {
		t.Errorf("annotations are %q; want %q", titles, want)
	}
	for path, want := range map[string]string{"targets": `["default"]`, "databases": `["` + database + `"]`, "locks": `["background-leader"]`} {
		if status, body := call(t, d, path); status != 200 || body != want {
			t.Errorf("%s: %d %s; want %s", path, status, body, want)
		}
	}
	if status, _ := call(t, d, "secrets"); status != 404 {
		t.Errorf("a resource that does not exist answers %d", status)
	}
}

func TestAHugeRangeIsAnswered(t *testing.T) {
	e := startExporter(t, dsn(newDatabase(t)), "127.0.0.1:0")
	d := instance(t, backend.DataSourceInstanceSettings{URL: e.url})
	huge := backend.TimeRange{From: time.Unix(0, 0), To: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	for _, kind := range []string{"terms", "timeline", "annotations"} {
		if answer := ask(t, d, kind, `{"limit": 10000}`, huge); answer.Error != nil {
			t.Errorf("%s: %v", kind, answer.Error)
		}
	}
}

func TestAnExporterThatIsDownIsADownstreamError(t *testing.T) {
	e := startExporter(t, dsn(newDatabase(t)), "127.0.0.1:0")
	d := instance(t, backend.DataSourceInstanceSettings{URL: e.url})
	e.stop()
	for _, kind := range []string{"current", "terms", "timeline", "stats", "annotations"} {
		if answer := ask(t, d, kind, `{}`, recent()); answer.Error == nil || answer.ErrorSource != backend.ErrorSourceDownstream {
			t.Errorf("%s: %v, source %q", kind, answer.Error, answer.ErrorSource)
		}
	}
	if status, body := call(t, d, "targets"); status != http.StatusBadGateway || !strings.Contains(body, "refused") {
		t.Errorf("targets: %d %s", status, body)
	}
	noAddress := instance(t, backend.DataSourceInstanceSettings{})
	if answer := ask(t, noAddress, "current", `{}`, recent()); answer.Error == nil || answer.ErrorSource != backend.ErrorSourceDownstream {
		t.Errorf("no address: %v, source %q", answer.Error, answer.ErrorSource)
	}
}

// streamed runs a stream and hands each frame on, as the panel gets it.
func streamed(tb testing.TB, ctx context.Context, d *plugin.Datasource, path string) (frames <-chan *data.Frame, ended <-chan error) {
	tb.Helper()
	came, end := make(chan *data.Frame, 100), make(chan error, 1)
	go func() {
		end <- d.RunStream(ctx, &backend.RunStreamRequest{Path: path}, backend.NewStreamSender(packets(func(text []byte) error {
			var frame data.Frame
			if err := json.Unmarshal(text, &frame); err != nil {
				return err
			}
			came <- &frame
			return nil
		})))
	}()
	return came, end
}

type packets func([]byte) error

func (send packets) Send(p *backend.StreamPacket) error { return send(p.Data) }

// next waits for a frame that has the value in a row of the field.
func next(tb testing.TB, frames <-chan *data.Frame, field string, want any) {
	tb.Helper()
	timeout := time.After(deadline)
	var last *data.Frame
	for {
		select {
		case last = <-frames:
			for row := range last.Rows() {
				if cell(tb, last, field, row) == want {
					return
				}
			}
		case <-timeout:
			tb.Fatalf("no frame has %v in %s; the last was %+v", want, field, last)
		}
	}
}

func TestStreamsFollowChangesAndComeBackWithTheExporter(t *testing.T) {
	database := newDatabase(t)
	e := startExporter(t, dsn(database), "127.0.0.1:0")
	d := instance(t, backend.DataSourceInstanceSettings{URL: e.url})
	e.await(t, "")
	channel := ask(t, d, "current", `{"live": true, "locks": ["background-leader"]}`, recent()).Frames[0].Meta.Channel
	path, ok := strings.CutPrefix(channel, "ds/uid/")
	if !ok {
		t.Fatalf("the channel is %q", channel)
	}
	ctx, cancel := context.WithCancel(t.Context())
	current, currentEnd := streamed(t, ctx, d, path)
	events, eventsEnd := streamed(t, ctx, d, strings.Replace(path, "current", "events", 1))
	next(t, current, "verdict", "unheld")
	next(t, events, "event", "connected")
	release := lead(t, database, "api-1")
	next(t, current, "holder", "api-1")
	next(t, events, "event", "term")

	address := strings.TrimPrefix(e.url, "http://")
	e.stop()
	next(t, current, "verdict", "unknown") // not the last holder
	next(t, events, "event", "disconnected")
	startExporter(t, dsn(database), address)
	next(t, current, "holder", "api-1")
	next(t, events, "event", "connected")
	release()
	next(t, current, "verdict", "unheld")

	cancel()
	for _, end := range []<-chan error{currentEnd, eventsEnd} {
		if err := <-end; err != nil {
			t.Errorf("a stream that nobody reads any more ends with %v", err)
		}
	}
}

func TestADisposedInstanceEndsItsStreamsWithAnError(t *testing.T) {
	e := startExporter(t, dsn(newDatabase(t)), "127.0.0.1:0")
	d := instance(t, backend.DataSourceInstanceSettings{URL: e.url})
	frames, end := streamed(t, t.Context(), d, "events")
	next(t, frames, "event", "connected")
	d.Dispose()
	if err := <-end; err == nil || !strings.Contains(err.Error(), "settings") {
		t.Errorf("ended with %v", err)
	}
}

func TestStreamsThatDoNotExistAreRefused(t *testing.T) {
	d := recorded(t)
	for _, path := range []string{"", "history", "current/!", "events/bm9uZQ"} {
		answer, err := d.SubscribeStream(t.Context(), &backend.SubscribeStreamRequest{Path: path})
		if err != nil || answer.Status != backend.SubscribeStreamStatusNotFound {
			t.Errorf("%q: %v, %v", path, answer, err)
		}
		if err := d.RunStream(t.Context(), &backend.RunStreamRequest{Path: path}, nil); err == nil {
			t.Errorf("%q runs", path)
		}
	}
	if answer, err := d.PublishStream(t.Context(), nil); err != nil || answer.Status != backend.PublishStreamStatusPermissionDenied {
		t.Errorf("publish: %v, %v", answer, err)
	}
	long := ask(t, d, "events", `{"targets": ["`+strings.Repeat("x", 200)+`"]}`, at()).Frames[0]
	if long.Meta.Channel != "" || len(long.Meta.Notices) != 1 {
		t.Errorf("a channel of %d characters, notices %v", len(long.Meta.Channel), long.Meta.Notices)
	}
}
