package plugin

import (
	"cmp"
	"fmt"
	"maps"
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
	verdict := column("verdict", locks, func(l exporter.Lock) string { return l.Verdict })
	verdict.Config = &data.FieldConfig{Mappings: data.ValueMappings{data.ValueMapper{
		exporter.Held: {Color: "green"}, exporter.Unheld: {Color: "red"}, exporter.Multiple: {Color: "red"}, exporter.Unknown: {Color: "text"},
	}}}
	return table("current",
		column("target", locks, func(l exporter.Lock) string { return l.Target }),
		column("datname", locks, func(l exporter.Lock) string { return l.Datname }),
		column("lock", locks, func(l exporter.Lock) string { return l.Lock }),
		verdict,
		ofHolder("holder", locks, func(h exporter.Holder) *string {
			name := cmp.Or(presentName(h), nameless(h.PID))
			return &name
		}),
		ofHolder("client_addr", locks, func(h exporter.Holder) *string { return h.ClientAddr }),
		ofHolder("usename", locks, func(h exporter.Holder) *string { return h.Usename }),
		ofHolder("pid", locks, func(h exporter.Holder) *int64 { return &h.PID }),
		ofHolder("backend_start", locks, func(h exporter.Holder) *time.Time { return h.BackendStart }),
		described(ofHolder("term_start", locks, func(h exporter.Holder) *time.Time { return h.TermStart }),
			"", "", "The first poll that showed the present term"),
		described(ofHolder(statHeartbeatAge, locks, func(h exporter.Holder) *float64 { return h.HeartbeatAgeSeconds }),
			"heartbeat age", "s", "Time since the holder's last statement"),
		column("holders", locks, func(l exporter.Lock) *int64 { return l.Holders }),
		column("waiters", locks, func(l exporter.Lock) *int64 { return l.Waiters }),
		described(ofHolder("foreign", locks, func(h exporter.Holder) *bool { return &h.Foreign }),
			"", "", "The holder's application_name is none of those that the exporter's configuration expects"),
		described(ofHolder("visible", locks, func(h exporter.Holder) *bool { return &h.Visible }),
			"", "", "The exporter's role may see the holder's details"),
		described(column("at", locks, func(l exporter.Lock) *time.Time { return l.At }), "", "", "End of the last poll, by the exporter's clock"),
		described(column("error", locks, func(l exporter.Lock) string { return l.Error }), "", "", "Why nothing is known"),
		column("key", locks, func(l exporter.Lock) string { return l.Key }),
	)
}

// ofHolder makes a field of what is known of each holder.
func ofHolder[Value any](name string, locks []exporter.Lock, value func(exporter.Holder) *Value) *data.Field {
	return column(name, locks, func(lock exporter.Lock) *Value {
		if lock.Holder == nil {
			return nil
		}
		return value(*lock.Holder)
	})
}

// presentName is the application_name of a holder; empty where it cannot be seen.
func presentName(h exporter.Holder) string {
	if h.ApplicationName == nil {
		return ""
	}
	return *h.ApplicationName
}

// nameless is what a holder without a name is called.
func nameless(pid int64) string { return fmt.Sprintf("backend %d", pid) }

// termsFrame is a row for each term, in the order given.
func termsFrame(terms []exporter.Term) *data.Frame {
	return table("terms",
		column("target", terms, func(t exporter.Term) string { return t.Target }),
		column("datname", terms, func(t exporter.Term) string { return t.Datname }),
		column("lock", terms, func(t exporter.Term) string { return t.Lock }),
		column("holder", terms, holderName),
		column("client_addr", terms, func(t exporter.Term) string { return t.ClientAddr }),
		column("usename", terms, func(t exporter.Term) string { return t.Usename }),
		column("pid", terms, func(t exporter.Term) int64 { return t.PID }),
		column("backend_start", terms, func(t exporter.Term) *time.Time { return t.BackendStart }),
		described(column("started_after", terms, func(t exporter.Term) *time.Time { return t.StartedAfter }),
			"", "", "The last poll that did not show it yet; empty where there was none"),
		described(column("start", terms, func(t exporter.Term) time.Time { return t.Start }), "", "", "The first poll that showed it"),
		described(column("last_seen", terms, func(t exporter.Term) time.Time { return t.LastSeen }), "", "", "The last poll that showed it"),
		described(column("end", terms, func(t exporter.Term) *time.Time { return t.End }),
			"", "", "The first poll that did not show it any more; empty where none has"),
		described(column("ongoing", terms, func(t exporter.Term) bool { return t.Ongoing }),
			"", "", "Without an end, and still watched; a term without both has an end that is not known"),
		described(column("seconds", terms, func(t exporter.Term) float64 { return t.LastSeen.Sub(t.Start).Seconds() }),
			"duration", "s", "From the first to the last poll that showed it: it went on for at least so long"),
	)
}

// statsFrame is one row, present whatever happens, with a field for each lock and number. Labels are those that stay the same
// when the holder changes, since an alert rule makes an instance of each set of labels.
func statsFrame(locks []exporter.Lock, stat string) *data.Frame {
	frame := data.NewFrame("stats")
	frame.Meta = &data.FrameMeta{Type: data.FrameTypeNumericWide, TypeVersion: data.FrameTypeVersion{0, 1}}
	if len(locks) == 0 {
		locks = []exporter.Lock{{Verdict: exporter.Unknown}}
		frame.AppendNotices(data.Notice{Severity: data.NoticeSeverityWarning, Text: "The exporter watches no such lock."})
	}
	for _, lock := range locks {
		labels := statLabels(lock)
		if stat == statAll || stat == statHolders {
			frame.Fields = append(frame.Fields, data.NewField(statHolders, labels, []*float64{float(lock.Holders)}))
		}
		if stat == statAll || stat == statWaiters {
			frame.Fields = append(frame.Fields, data.NewField(statWaiters, labels, []*float64{float(lock.Waiters)}))
		}
		if stat == statAll || stat == statHeartbeatAge {
			age := ofHolder(statHeartbeatAge, []exporter.Lock{lock}, func(h exporter.Holder) *float64 { return h.HeartbeatAgeSeconds })
			age.Labels = labels
			frame.Fields = append(frame.Fields, described(age, "", "s", ""))
		}
	}
	return frame
}

// statLabels are the target's own and the names of the lock.
func statLabels(lock exporter.Lock) data.Labels {
	if lock.Lock == "" {
		return nil
	}
	labels := make(data.Labels, len(lock.Labels)+3)
	maps.Copy(labels, lock.Labels)
	labels["target"], labels["datname"], labels["lock"] = lock.Target, lock.Datname, lock.Lock
	return labels
}

// float keeps what is not known: that is never 0.
func float(count *int64) *float64 {
	if count == nil {
		return nil
	}
	value := float64(*count)
	return &value
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
