package plugin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/exporter"
)

// held is a server with a leader, and its exporter.
func held(tb testing.TB) *process {
	tb.Helper()
	database := newDatabase(tb)
	e := startExporter(tb, dsn(database), "127.0.0.1:0")
	lead(tb, database, "api-1")
	e.await(tb, "api-1")
	return e
}

// viaAPI asks the exporter as a program does, and decodes the answer.
func viaAPI(tb testing.TB, e *process) {
	tb.Helper()
	response, err := http.Get(e.url + "/api/v1/locks")
	if err != nil {
		tb.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	var answer exporter.Locks
	if err != nil || json.Unmarshal(body, &answer) != nil {
		tb.Fatal(err, string(body))
	}
}

// BenchmarkCurrent has the exporter's own call beside it, and the ratio of the medians.
func BenchmarkCurrent(b *testing.B) {
	e := held(b)
	d := instance(b, backend.DataSourceInstanceSettings{URL: e.url})
	b.ReportAllocs()
	var plugin, api []time.Duration
	for b.Loop() {
		begin := time.Now()
		if answer := ask(b, d, "current", `{}`, recent()); answer.Error != nil {
			b.Fatal(answer.Error)
		}
		middle := time.Now()
		viaAPI(b, e)
		plugin, api = append(plugin, middle.Sub(begin)), append(api, time.Since(middle))
	}
	slices.Sort(plugin)
	slices.Sort(api)
	b.ReportMetric(float64(plugin[len(plugin)/2].Microseconds()), "plugin-µs")
	b.ReportMetric(float64(api[len(api)/2].Microseconds()), "api-µs")
	b.ReportMetric(float64(plugin[len(plugin)/2])/float64(api[len(api)/2]), "ratio")
}

// manyTerms serves the pages of 10,000 terms, made beforehand.
func manyTerms(tb testing.TB) string {
	tb.Helper()
	const all, page = 10_000, 1000
	var bodies [all / page][]byte
	for n := range bodies {
		terms := make([]exporter.Term, page)
		for i := range terms {
			start := at().To.Add(-time.Duration(n*page+i+1) * time.Minute)
			after, end := start.Add(-time.Second), start.Add(time.Minute)
			terms[i] = exporter.Term{
				Target: "eu", Datname: "plexsphere", Lock: "background-leader", PID: int64(n*page + i), ApplicationName: fmt.Sprintf("plexsphere-api-%d", i%5),
				Usename: "plexsphere", ClientAddr: "10.0.0.1", BackendStart: &after, StartedAfter: &after, Start: start, LastSeen: end, End: &end,
			}
		}
		body := map[string]any{"terms": terms}
		if n+1 < len(bodies) {
			body["next"] = strconv.Itoa(n + 1)
		}
		bodies[n], _ = json.Marshal(body)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(bodies[n])
	}))
	tb.Cleanup(server.Close)
	return server.URL
}

// BenchmarkTenThousandTerms goes from ten pages to one frame.
func BenchmarkTenThousandTerms(b *testing.B) {
	d := instance(b, backend.DataSourceInstanceSettings{URL: manyTerms(b)})
	b.ReportAllocs()
	for b.Loop() {
		answer := ask(b, d, "terms", `{"limit": 10000}`, backend.TimeRange{To: at().To})
		if answer.Error != nil || answer.Frames[0].Rows() != 10_000 {
			b.Fatal(answer.Error)
		}
	}
}

func TestTenThousandTermsTakeFewerThan50MiB(t *testing.T) {
	d := instance(t, backend.DataSourceInstanceSettings{URL: manyTerms(t)})
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			answer, err := d.QueryData(context.Background(), &backend.QueryDataRequest{Queries: []backend.DataQuery{
				{RefID: "A", QueryType: "terms", JSON: []byte(`{"limit": 10000}`), TimeRange: backend.TimeRange{To: at().To}},
			}})
			if err != nil || answer.Responses["A"].Error != nil {
				b.Fatal(err, answer.Responses["A"].Error)
			}
		}
	})
	if got := result.AllocedBytesPerOp(); got > 50<<20 {
		t.Errorf("%d MiB were allocated", got>>20)
	}
}
