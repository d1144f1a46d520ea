package plugin_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
)

// A term that nobody has seen end is drawn, and a free lock marked, for as long as the exporter has seen it, and no longer.
func TestTimeIsKnownAsLongAsTheExporterHasSeen(t *testing.T) {
	const (
		names   = `"target": "eu", "datname": "db", "lock": "l"`
		open    = `{` + names + `, "application_name": "a", "start": "2026-12-01T10:10:00Z", "last_seen": "2026-12-01T10:30:00Z", "ongoing": `
		ended   = `{` + names + `, "application_name": "a", "start": "2026-12-01T10:10:00Z", "last_seen": "2026-12-01T10:29:59Z", "end": "2026-12-01T10:30:00Z", "ongoing": false}`
		up      = `{"target": "eu", "up": true, "last_success": "2026-12-01T11:00:00Z", "poll_interval_seconds": 1}`
		down    = `{"target": "eu", "up": false, "last_success": "2026-12-01T10:40:00Z", "poll_interval_seconds": 1}`
		unknown = `{` + names + `, "verdict": "unknown", "at": "2026-12-01T11:00:00Z"}`
		free    = `{` + names + `, "verdict": "unheld", "holders": 0, "waiters": 0, "at": "2026-12-01T11:00:00Z"}`
		other   = `{` + names + `, "verdict": "held", "holders": 1, "waiters": 0, "at": "2026-12-01T11:00:00Z",
			"holder": {"pid": 2, "visible": true, "application_name": "b", "term_start": "2026-12-01T10:59:59Z"}}`
	)
	for name, c := range map[string]struct {
		term, lock, target string
		states             []string // with the minute at which each begins
		free               string   // until when annotations show no leader
	}{
		"goes on while the target is down":         {open + `true}`, unknown, down, []string{"00 unknown", "10 a", "30 unknown", "00 -"}, ""},
		"ended after the exporter told of it":      {open + `true}`, other, up, []string{"00 unknown", "10 a", "00 -"}, ""},
		"nobody watches the lock any more":         {open + `false}`, "", up, []string{"00 unknown", "10 a", "30 unknown", "00 -"}, ""},
		"watched again, and the term not seen end": {open + `false}`, unknown, up, []string{"00 unknown", "10 a", "30 unknown", "00 -"}, ""},
		"never seen to end, and another leads":     {open + `false}`, other, up, []string{"00 unknown", "10 a", "30 unknown", "00 -"}, ""},
		"free, and seen so":                        {ended, free, up, []string{"00 unknown", "10 a", "30 no leader", "00 -"}, "11:00:00"},
		"free, and the target is down":             {ended, unknown, down, []string{"00 unknown", "10 a", "30 no leader", "40 unknown", "00 -"}, "10:40:00"},
		"free, and not watched any more":           {ended, "", up, []string{"00 unknown", "10 a", "30 unknown", "00 -"}, "10:30:00"},
	} {
		t.Run(name, func(t *testing.T) {
			d := instance(t, backend.DataSourceInstanceSettings{URL: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				body := `{"locks": [` + c.lock + `], "targets": [` + c.target + `]}`
				if strings.HasSuffix(r.URL.Path, "terms") {
					body = `{"terms": [` + c.term + `]}`
				}
				_, _ = w.Write([]byte(body))
			}))})
			line := ask(t, d, "timeline", `{}`, at()).Frames[0]
			var states []string
			for row := range line.Rows() {
				moment, _ := line.Fields[0].At(row).(time.Time)
				state := "-"
				if value, known := line.Fields[1].ConcreteAt(row); known {
					state, _ = value.(string)
				}
				states = append(states, moment.Format("04 ")+state)
			}
			if !slices.Equal(states, c.states) {
				t.Errorf("timeline is %q; want %q", states, c.states)
			}
			var until string
			marks := ask(t, d, "annotations", `{}`, at()).Frames[0]
			for row := range marks.Rows() {
				if title := cell(t, marks, "title", row); title == "no leader" {
					end, _ := cell(t, marks, "timeEnd", row).(time.Time)
					until = end.Format(time.TimeOnly)
				}
			}
			if until != c.free {
				t.Errorf("annotations show no leader until %q; want %q", until, c.free)
			}
		})
	}
}
