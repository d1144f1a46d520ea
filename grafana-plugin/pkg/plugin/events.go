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
	case exporter.LockEvent:
		var lock exporter.Lock
		if json.Unmarshal(event.Data, &lock) == nil {
			row.target, row.datname, row.lock, row.text = lock.Target, lock.Datname, lock.Lock, lock.Verdict
			if lock.Holder != nil {
				row.text = fmt.Sprintf("%s by %s", lock.Verdict, called(presentName(*lock.Holder), lock.Holder.PID))
			}
			if lock.Error != "" {
				row.text += ": " + lock.Error
			}
		}
	case exporter.TermEvent:
		var term exporter.Term
		if json.Unmarshal(event.Data, &term) == nil {
			row.target, row.datname, row.lock = term.Target, term.Datname, term.Lock
			holder := called(term.ApplicationName, term.PID)
			switch {
			case term.End != nil:
				row.at, row.text = *term.End, holder+", leads no more"
			case term.Ongoing:
				row.at, row.text = term.Start, holder+", leads"
			default:
				row.at, row.text = term.LastSeen, holder+", led when it was last seen"
			}
		}
	case exporter.RemovedEvent:
		var removed exporter.Removed
		if json.Unmarshal(event.Data, &removed) == nil {
			row.target, row.datname, row.lock, row.text = removed.Target, removed.Datname, removed.Lock, "not watched any more"
		}
	case exporter.ResetEvent:
		row.text = "what follows is the present state"
	case exporter.DisconnectedEvent:
		row.text = event.Err.Error()
	}
	return row
}

// called names a holder, with its pid.
func called(name string, pid int64) string {
	if name == "" {
		return nameless(pid)
	}
	return fmt.Sprintf("%s, %s", name, nameless(pid))
}
