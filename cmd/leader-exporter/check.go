package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/plexsphere/leader-exporter/lockkey"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// report is what check found, and its JSON form.
type report struct {
	Target  string        `json:"target"`
	Datname string        `json:"datname,omitempty"`
	Lock    string        `json:"lock"`
	Key     string        `json:"key"`
	Verdict string        `json:"verdict"` // held, unheld, multiple, unknown
	Holders int           `json:"holders"`
	Waiters int           `json:"waiters"`
	Holder  *reportHolder `json:"holder,omitempty"`
	Error   string        `json:"error,omitempty"`
}

// reportHolder is the exclusive holder; what the role cannot see is left out.
type reportHolder struct {
	PID                 uint32     `json:"pid"`
	ApplicationName     string     `json:"application_name"`
	Usename             string     `json:"usename"`
	ClientAddr          string     `json:"client_addr"`
	BackendStart        *time.Time `json:"backend_start,omitempty"`
	HeartbeatAgeSeconds *float64   `json:"heartbeat_age_seconds,omitempty"`
}

// check polls once, prints what it found, and returns the verdict as exit code.
func check(ctx context.Context, opts options, stdout, stderr io.Writer) int {
	watcher, err := newWatcher(opts, io.Discard) // what it would log is in the report
	if err != nil {
		fmt.Fprintf(stderr, "leader-exporter: check: %v\n", err)
		return exitFailed
	}
	snapshot, err := watcher.Poll(ctx)
	found, code := judge(snapshot, err)
	if err := found.print(stdout, opts.output); err != nil {
		fmt.Fprintf(stderr, "leader-exporter: check: write the report: %v\n", err)
		return exitFailed
	}
	if found.Error != "" {
		fmt.Fprintf(stderr, "leader-exporter: check: %s\n", found.Error)
	}
	return code
}

// judge turns a poll into a report and its exit code.
func judge(snapshot lockwatch.Snapshot, pollErr error) (report, int) {
	found := report{Target: targetName, Lock: lockName, Key: lockkey.BackgroundLeader().String(), Verdict: "unknown"}
	switch {
	case pollErr != nil:
		found.Error = strings.Join(strings.Fields(pollErr.Error()), " ") // pgx writes a line for each address
		return found, exitFailed
	case snapshot.InRecovery || len(snapshot.Locks) == 0:
		found.Error = "the server is in recovery (a hot standby): it cannot tell who holds the primary's lock"
		return found, exitFailed
	}
	state := snapshot.Locks[0]
	found.Datname, found.Holders, found.Waiters = state.Datname, state.Holders, state.Waiters
	if holder := state.Holder; holder != nil {
		found.Holder = &reportHolder{
			PID:             holder.PID,
			ApplicationName: holder.ApplicationName,
			Usename:         holder.Usename,
			ClientAddr:      holder.ClientAddr,
		}
		if !holder.BackendStart.IsZero() {
			start := holder.BackendStart.UTC()
			found.Holder.BackendStart = &start
		}
		if holder.HeartbeatAge >= 0 {
			age := holder.HeartbeatAge.Seconds()
			found.Holder.HeartbeatAgeSeconds = &age
		}
	}
	switch {
	case state.Holders > 1:
		found.Verdict = "multiple"
		return found, exitMultiple
	case state.Holder == nil:
		found.Verdict = "unheld"
		return found, exitUnheld
	default:
		found.Verdict = "held"
		return found, exitOK
	}
}

// print writes the report as a table or as JSON.
func (r report) print(w io.Writer, format string) error {
	if format == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	holder, start, age := reportHolder{}, "-", "-"
	pid := "-"
	if r.Holder != nil {
		holder = *r.Holder
		pid = fmt.Sprint(holder.PID)
	}
	if holder.BackendStart != nil {
		start = holder.BackendStart.Format(time.RFC3339)
	}
	if holder.HeartbeatAgeSeconds != nil {
		age = time.Duration(*holder.HeartbeatAgeSeconds * float64(time.Second)).Round(time.Millisecond).String()
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TARGET\tDATNAME\tLOCK\tKEY\tVERDICT\tPID\tAPPLICATION\tUSER\tCLIENT\tBACKEND START\tHEARTBEAT AGE\tWAITERS")
	fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", r.Target, cmp.Or(r.Datname, "-"), r.Lock, r.Key, r.Verdict, pid,
		cmp.Or(holder.ApplicationName, "-"), cmp.Or(holder.Usename, "-"), cmp.Or(holder.ClientAddr, "-"), start, age, r.Waiters)
	return table.Flush()
}
