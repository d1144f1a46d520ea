package plugin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/plugin"
)

var update = flag.Bool("update", false, "rewrite the golden files instead of comparing with them") //nolint:gochecknoglobals // a flag of go test

// instance makes a data source with the settings.
func instance(tb testing.TB, settings backend.DataSourceInstanceSettings) *plugin.Datasource {
	tb.Helper()
	settings.UID = "uid"
	if settings.JSONData == nil {
		settings.JSONData = []byte(`{}`)
	}
	made, err := plugin.New(tb.Context(), settings)
	if err != nil {
		tb.Fatal(err)
	}
	d, _ := made.(*plugin.Datasource)
	tb.Cleanup(d.Dispose)
	return d
}

// recorded makes a data source on an exporter whose answers are files.
func recorded(tb testing.TB) *plugin.Datasource {
	tb.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		name := strings.TrimPrefix(r.URL.Path, "/api/v1/") + ".json"
		if r.URL.Query().Has("lock") { // the term before a range
			_, _ = w.Write([]byte(`{"terms": []}`))
			return
		}
		http.ServeFile(w, r, filepath.Join("testdata", name))
	}))
	tb.Cleanup(server.Close)
	return instance(tb, backend.DataSourceInstanceSettings{URL: server.URL})
}

// at returns the hour of the recorded answers.
func at() backend.TimeRange {
	return backend.TimeRange{From: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC), To: time.Date(2026, 12, 1, 11, 0, 0, 0, time.UTC)}
}

// ask sends one query and returns its answer.
func ask(tb testing.TB, d backend.QueryDataHandler, kind, query string, r backend.TimeRange) backend.DataResponse {
	tb.Helper()
	response, err := d.QueryData(context.Background(), &backend.QueryDataRequest{
		PluginContext: backend.PluginContext{DataSourceInstanceSettings: &backend.DataSourceInstanceSettings{}},
		Queries:       []backend.DataQuery{{RefID: "A", QueryType: kind, JSON: []byte(query), TimeRange: r}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return response.Responses["A"]
}

func TestFramesAreThoseOfTheGoldenFiles(t *testing.T) {
	d := recorded(t)
	for name, q := range map[string]struct{ kind, query string }{
		"current":     {"current", `{"live": true}`},
		"current-eu":  {"current", `{"targets": ["eu"]}`},
		"terms":       {"terms", `{}`},
		"terms-cut":   {"terms", `{"limit": 2}`},
		"timeline":    {"timeline", `{}`},
		"stats":       {"stats", `{}`},
		"stats-all":   {"stats", `{"stat": "all", "targets": ["eu", "us"]}`},
		"stats-none":  {"stats", `{"targets": ["nowhere", "elsewhere"]}`},
		"annotations": {"annotations", `{}`},
		"events":      {"events", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			answer := ask(t, d, q.kind, q.query, at())
			if answer.Error != nil {
				t.Fatal(answer.Error)
			}
			compact, err := json.Marshal(answer)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := json.Indent(&got, compact, "", " "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			path := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s differs (-want +got); if that is meant: go test -update\n%s", path, diff)
			}
		})
	}
}

func TestQueriesThatAreWrongSaySo(t *testing.T) {
	d := recorded(t)
	reversed := backend.TimeRange{From: at().To, To: at().From}
	for name, q := range map[string]struct {
		kind, query string
		r           backend.TimeRange
		want        string
	}{
		"no JSON":        {"current", `{`, at(), "no JSON"},
		"another form":   {"current", `{"targets": "eu"}`, at(), "no JSON of the expected form"},
		"unknown type":   {"history", `{}`, at(), `query type "history"`},
		"unknown stat":   {"stats", `{"stat": "pid"}`, at(), `stat "pid"`},
		"limit too high": {"terms", `{"limit": 10001}`, at(), "from 1 to 10000"},
		"limit negative": {"terms", `{"limit": -1}`, at(), "from 1 to 10000"},
		"reversed range": {"terms", `{}`, reversed, "ends before it begins"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := ask(t, d, q.kind, q.query, q.r)
			if answer.Error == nil || !strings.Contains(answer.Error.Error(), q.want) {
				t.Errorf("got error %v; want %q in it", answer.Error, q.want)
			}
			if answer.ErrorSource != backend.ErrorSourceDownstream || answer.Status != backend.StatusBadRequest {
				t.Errorf("source %q, status %v; want downstream and 400", answer.ErrorSource, answer.Status)
			}
		})
	}
}

func TestAnnotationsHaveIDsThatStayAndTimesThatAreSet(t *testing.T) {
	d := recorded(t)
	whole := ask(t, d, "annotations", `{}`, at()).Frames[0]
	later := ask(t, d, "annotations", `{}`, backend.TimeRange{From: at().From.Add(35 * time.Minute), To: at().To}).Frames[0]
	ids := make(map[any]bool)
	for i := range whole.Rows() {
		id := whole.Fields[0].At(i)
		if ids[id] {
			t.Errorf("two annotations have the id %v", id)
		}
		ids[id] = true
		begin, _ := whole.Fields[1].At(i).(time.Time)
		end, _ := whole.Fields[2].At(i).(time.Time)
		if begin.IsZero() || end.Before(begin) {
			t.Errorf("row %d is from %v to %v", i, begin, end)
		}
	}
	if later.Rows() == 0 {
		t.Fatal("no annotation in the shorter range")
	}
	for i := range later.Rows() {
		if !ids[later.Fields[0].At(i)] {
			t.Errorf("%v has another id in a shorter range", later.Fields[3].At(i))
		}
	}
}
