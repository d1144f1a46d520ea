package plugin

import (
	"encoding/json"
	"net/url"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/exporter"
)

// The types of queries.
const (
	typeCurrent     = "current"
	typeTerms       = "terms"
	typeTimeline    = "timeline"
	typeStats       = "stats"
	typeAnnotations = "annotations"
	typeEvents      = "events"
)

// The numbers of a stats query.
const (
	statHolders      = "holders"
	statWaiters      = "waiters"
	statHeartbeatAge = "heartbeat_age_seconds"
	statAll          = "all"
)

const (
	defaultRows     = 1000 // of the table of terms
	defaultSegments = 5000 // of timeline and annotations, which are lighter
)

// query is what a panel asks. src/types.ts has the same.
type query struct {
	exporter.Filter
	Limit int    `json:"limit"` // most terms; 0 is the default of the type
	Stat  string `json:"stat"`
	Live  bool   `json:"live"` // current: go on by the channel

	backend.DataQuery `json:"-"`
}

// parse reads a query; what is wrong with it, its author can mend.
func parse(q backend.DataQuery) (query, error) {
	parsed := query{DataQuery: q}
	if err := json.Unmarshal(q.JSON, &parsed); err != nil {
		return query{}, backend.DownstreamErrorf("the query is no JSON of the expected form: %w", err)
	}
	switch parsed.Stat {
	case "":
		parsed.Stat = statHolders
	case statHolders, statWaiters, statHeartbeatAge, statAll:
	default:
		return query{}, backend.DownstreamErrorf("stat %q: there are %s, %s, %s and %s", parsed.Stat, statHolders, statWaiters, statHeartbeatAge, statAll)
	}
	if parsed.Limit < 0 || parsed.Limit > exporter.MaxTerms {
		return query{}, backend.DownstreamErrorf("limit %d: it must be from 1 to %d", parsed.Limit, exporter.MaxTerms)
	}
	return parsed, nil
}

// checkRange refuses a range that ends before it begins.
func (q query) checkRange() error {
	if q.TimeRange.To.Before(q.TimeRange.From) {
		return backend.DownstreamErrorf("the time range ends before it begins")
	}
	return nil
}

// limit returns the most terms to read.
func (q query) limit(otherwise int) int {
	if q.Limit > 0 {
		return q.Limit
	}
	return otherwise
}

// said is the query as the inspector shows it.
func (q query) said(path string) string {
	values := make(url.Values)
	for name, names := range map[string][]string{"target": q.Targets, "datname": q.Databases, "lock": q.Locks} {
		for _, value := range names {
			values.Add(name, value)
		}
	}
	if len(values) == 0 {
		return "GET " + path
	}
	return "GET " + path + "?" + values.Encode()
}
