package dashboards_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// server is a Prometheus that runs.
type server struct{ address string }

// result is one series of an answer.
type result struct {
	Metric map[string]string `json:"metric"`
	Value  point             `json:"value"`
	Values []point           `json:"values"`
}

// point is a time in seconds and a value.
type point struct{ at, value float64 }

// UnmarshalJSON implements json.Unmarshaler.
func (p *point) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &[]any{&p.at, &text}); err != nil {
		return err
	}
	var err error
	p.value, err = strconv.ParseFloat(text, 64)
	return err
}

// get asks the HTTP API and returns the data of an answer that is a success without warnings.
func (p server) get(tb testing.TB, path string, form url.Values, data any) {
	tb.Helper()
	resp, err := http.Get("http://" + p.address + path + "?" + form.Encode())
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	answer := struct {
		Status, Error string
		Warnings      []string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Status != "success" || len(answer.Warnings) > 0 {
		tb.Fatalf("%s: %s: %v: %s %s %v", form, path, err, answer.Status, answer.Error, answer.Warnings)
	}
}

// at asks for one moment.
func (p server) at(tb testing.TB, expr string, moment time.Time) []result {
	tb.Helper()
	var data struct{ Result []result }
	p.get(tb, "/api/v1/query", url.Values{"query": {expr}, "time": {seconds(moment)}}, &data)
	return data.Result
}

// over asks for a range, a point a second.
func (p server) over(tb testing.TB, expr string, from, to time.Time, step time.Duration) []result {
	tb.Helper()
	var data struct{ Result []result }
	p.get(tb, "/api/v1/query_range", url.Values{
		"query": {expr}, "start": {seconds(from)}, "end": {seconds(to)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	}, &data)
	return data.Result
}

// values asks what a variable of a dashboard asks.
func (p server) values(tb testing.TB, query string, from, to time.Time) []string {
	tb.Helper()
	match := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(query)
	if match == nil {
		tb.Fatalf("%q is no label_values", query)
	}
	var data []string
	p.get(tb, "/api/v1/label/"+match[2]+"/values", url.Values{"match[]": {match[1]}, "start": {seconds(from)}, "end": {seconds(to)}}, &data)
	return data
}

func seconds(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

// view is what a reader looks at: a range, with the values that Grafana would fill in for scrapes every so often.
func view(deployment string, from, to time.Time, scrape time.Duration) map[string]string {
	values := usual()
	values["${deployment:regex}"] = deployment
	values["$__range"] = fmt.Sprintf("%.0fs", math.Round(to.Sub(from).Seconds()))
	values["$__rate_interval"] = fmt.Sprintf("%.0fs", (4 * scrape).Seconds())
	return values
}
