package plugin

import (
	"fmt"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/exporter"
)

// column makes a field of a value of each row.
func column[Row, Value any](name string, rows []Row, value func(Row) Value) *data.Field {
	values := make([]Value, len(rows))
	for i, row := range rows {
		values[i] = value(row)
	}
	return data.NewField(name, nil, values)
}

func described(field *data.Field, display, unit, description string) *data.Field {
	field.Config = &data.FieldConfig{DisplayNameFromDS: display, Unit: unit, Description: description}
	return field
}

func table(name string, fields ...*data.Field) *data.Frame {
	frame := data.NewFrame(name, fields...)
	frame.Meta = &data.FrameMeta{
		Type: data.FrameTypeTable, TypeVersion: data.FrameTypeVersion{0, 1}, PreferredVisualization: data.VisTypeTable,
	}
	return frame
}

// currentFrame is a row for each lock.
func currentFrame(locks []exporter.Lock) *data.Frame {
	holder := func(lock exporter.Lock) exporter.Holder {
		if lock.Holder == nil {
			return exporter.Holder{}
		}
		return *lock.Holder
	}
	verdict := column("verdict", locks, func(l exporter.Lock) string { return l.Verdict })
	verdict.Config = &data.FieldConfig{Mappings: data.ValueMappings{data.ValueMapper{
		exporter.Held: {Color: "green"}, exporter.Unheld: {Color: "red"}, exporter.Multiple: {Color: "red"}, exporter.Unknown: {Color: "text"},
	}}}
	return table("current",
		column("target", locks, func(l exporter.Lock) string { return l.Target }),
		column("datname", locks, func(l exporter.Lock) string { return l.Datname }),
		column("lock", locks, func(l exporter.Lock) string { return l.Lock }),
		verdict,
		column("holder", locks, func(l exporter.Lock) string { return holder(l).ApplicationName }),
		column("client_addr", locks, func(l exporter.Lock) string { return holder(l).ClientAddr }),
		column("usename", locks, func(l exporter.Lock) string { return holder(l).Usename }),
		column("pid", locks, func(l exporter.Lock) *int64 {
			if l.Holder == nil {
				return nil
			}
			return &l.Holder.PID
		}),
		column("backend_start", locks, func(l exporter.Lock) *time.Time { return holder(l).BackendStart }),
		described(column("term_start", locks, func(l exporter.Lock) *time.Time { return holder(l).TermStart }),
			"", "", "The first poll that showed the present term"),
		described(column(statHeartbeatAge, locks, func(l exporter.Lock) *float64 { return holder(l).HeartbeatAgeSeconds }),
			"heartbeat age", "s", "Time since the holder's last statement"),
		column("holders", locks, func(l exporter.Lock) *int64 { return seen(l, l.Holders) }),
		column("waiters", locks, func(l exporter.Lock) *int64 { return seen(l, l.Waiters) }),
		column("foreign", locks, func(l exporter.Lock) bool { return holder(l).Foreign }),
		described(column("at", locks, func(l exporter.Lock) *time.Time { return l.At }), "", "", "End of the last poll, by the exporter's clock"),
		described(column("error", locks, func(l exporter.Lock) string { return l.Error }), "", "", "Why nothing is known"),
		column("key", locks, func(l exporter.Lock) string { return l.Key }),
	)
}

// seen returns the number, or nil where nothing is known: that is never 0.
func seen(l exporter.Lock, number int64) *int64 {
	if l.Verdict == exporter.Unknown {
		return nil
	}
	return &number
}

// termsFrame is a row for each term, in the order given.
func termsFrame(terms []exporter.Term) *data.Frame {
	return table("terms",
		column("target", terms, func(t exporter.Term) string { return t.Target }),
		column("datname", terms, func(t exporter.Term) string { return t.Datname }),
		column("lock", terms, func(t exporter.Term) string { return t.Lock }),
		column("holder", terms, func(t exporter.Term) string { return t.ApplicationName }),
		column("client_addr", terms, func(t exporter.Term) string { return t.ClientAddr }),
		column("usename", terms, func(t exporter.Term) string { return t.Usename }),
		column("pid", terms, func(t exporter.Term) int64 { return t.PID }),
		column("backend_start", terms, func(t exporter.Term) *time.Time { return t.BackendStart }),
		described(column("started_after", terms, func(t exporter.Term) *time.Time { return t.StartedAfter }),
			"", "", "The last poll that did not show it yet; empty where there was none"),
		described(column("start", terms, func(t exporter.Term) time.Time { return t.Start }), "", "", "The first poll that showed it"),
		described(column("last_seen", terms, func(t exporter.Term) time.Time { return t.LastSeen }), "", "", "The last poll that showed it"),
		described(column("end", terms, func(t exporter.Term) *time.Time { return t.End }),
			"", "", "The first poll that did not show it any more; empty while it goes on"),
		described(column("seconds", terms, func(t exporter.Term) float64 { return t.LastSeen.Sub(t.Start).Seconds() }),
			"duration", "s", "From the first to the last poll that showed it: it went on for at least so long"),
	)
}

// statsFrame is one row, present whatever happens, with a field for each lock and number. Labels are those that stay the same
// when the holder changes, since an alert rule makes an instance of each set of labels.
func statsFrame(locks []exporter.Lock, stat string) *data.Frame {
	frame := data.NewFrame("stats")
	frame.Meta = &data.FrameMeta{Type: data.FrameTypeNumericWide, TypeVersion: data.FrameTypeVersion{0, 1}}
	number := func(lock exporter.Lock, count int64) *float64 {
		if lock.Verdict == exporter.Unknown {
			return nil
		}
		value := float64(count)
		return &value
	}
	if len(locks) == 0 {
		locks = []exporter.Lock{{Verdict: exporter.Unknown}}
		frame.AppendNotices(data.Notice{Severity: data.NoticeSeverityWarning, Text: "The exporter watches no such lock."})
	}
	for _, lock := range locks {
		var labels data.Labels
		if lock.Lock != "" {
			labels = data.Labels{"target": lock.Target, "datname": lock.Datname, "lock": lock.Lock}
		}
		if stat == statAll || stat == statHolders {
			frame.Fields = append(frame.Fields, data.NewField(statHolders, labels, []*float64{number(lock, lock.Holders)}))
		}
		if stat == statAll || stat == statWaiters {
			frame.Fields = append(frame.Fields, data.NewField(statWaiters, labels, []*float64{number(lock, lock.Waiters)}))
		}
		if stat == statAll || stat == statHeartbeatAge {
			var age *float64
			if lock.Holder != nil {
				age = lock.Holder.HeartbeatAgeSeconds
			}
			frame.Fields = append(frame.Fields, described(data.NewField(statHeartbeatAge, labels, []*float64{age}), "", "s", ""))
		}
	}
	return frame
}

// targetNotices names the targets that are down.
func targetNotices(targets []exporter.Target) []data.Notice {
	var notices []data.Notice
	for _, target := range targets {
		if !target.Up {
			notices = append(notices, data.Notice{Severity: data.NoticeSeverityWarning, Text: fmt.Sprintf("Target %s is down: %s", target.Target, target.Error)})
		}
	}
	return notices
}

func cutNotice(terms int) data.Notice {
	return data.Notice{
		Severity: data.NoticeSeverityWarning,
		Text:     fmt.Sprintf("There are more terms than the newest %d that are shown: choose a shorter time range, or a higher limit.", terms),
	}
}
