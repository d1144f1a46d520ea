package plugin

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/exporter"
)

// eventRow is one change, as a log shows it.
type eventRow struct {
	at                                 time.Time
	event, target, datname, lock, text string
}

func eventsFrame(rows []eventRow) *data.Frame {
	return table("events",
		column("time", rows, func(r eventRow) time.Time { return r.at.UTC() }),
		column("event", rows, func(r eventRow) string { return r.event }),
		column("target", rows, func(r eventRow) string { return r.target }),
		column("datname", rows, func(r eventRow) string { return r.datname }),
		column("lock", rows, func(r eventRow) string { return r.lock }),
		column("text", rows, func(r eventRow) string { return r.text }),
	)
}

// rowOf says in words what an event says. now is when it came.
func rowOf(event exporter.Event, now time.Time) eventRow {
	row := eventRow{at: now, event: event.Name}
	switch event.Name {
	case "lock":
		var lock exporter.Lock
		if json.Unmarshal(event.Data, &lock) == nil {
			row.target, row.datname, row.lock, row.text = lock.Target, lock.Datname, lock.Lock, lock.Verdict
			if lock.Holder != nil {
				row.text = fmt.Sprintf("%s by %s, backend %d", lock.Verdict, lock.Holder.ApplicationName, lock.Holder.PID)
			}
			if lock.Error != "" {
				row.text += ": " + lock.Error
			}
		}
	case "term":
		var term exporter.Term
		if json.Unmarshal(event.Data, &term) == nil {
			row.target, row.datname, row.lock = term.Target, term.Datname, term.Lock
			row.at, row.text = term.Start, fmt.Sprintf("%s, backend %d, leads", holderName(term), term.PID)
			if term.End != nil {
				row.at, row.text = *term.End, fmt.Sprintf("%s, backend %d, leads no more", holderName(term), term.PID)
			}
		}
	case "removed":
		var target struct {
			Target string `json:"target"`
		}
		if json.Unmarshal(event.Data, &target) == nil {
			row.target, row.text = target.Target, "not watched any more"
		}
	case "reset":
		row.event, row.text = "connected", "what follows is the present state"
	}
	return row
}
