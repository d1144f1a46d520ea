package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/plexsphere/leader-exporter/cmd/leader-exporter/config"
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

	code int // exit code
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

// check polls every target once, prints what it found, and returns the worst verdict as exit code.
func check(ctx context.Context, opts options, stdout, stderr io.Writer) int {
	specs, err := opts.specs()
	if err != nil {
		printProblems(stderr, err)
		return exitFailed
	}
	found := make([][]report, len(specs))
	var polling sync.WaitGroup
	for i, s := range specs {
		watcher, err := s.watcher(opts, slog.New(slog.DiscardHandler), nil) // what it would log is in the report
		if err != nil {
			fmt.Fprintf(stderr, "leader-exporter: check: %v\n", err)
			return exitFailed
		}
		polling.Go(func() {
			snapshot, err := watcher.Poll(ctx)
			found[i] = judge(s.target, snapshot, err)
		})
	}
	polling.Wait()
	reports := slices.Concat(found...)
	if err := printReports(stdout, reports, opts.output); err != nil {
		fmt.Fprintf(stderr, "leader-exporter: check: write the report: %v\n", err)
		return exitFailed
	}
	worst := exitOK
	for _, r := range reports {
		worst = max(worst, r.code)
		if r.Error != "" {
			prefix := "leader-exporter: check: "
			if opts.configFile != "" {
				prefix += "target " + r.Target + ": "
			}
			fmt.Fprintf(stderr, "%s%s\n", prefix, r.Error)
		}
	}
	return worst
}

// judge turns the poll of a target into reports: one for each lock in each database, or for each lock when nothing is known.
func judge(target config.Target, snapshot lockwatch.Snapshot, pollErr error) (reports []report) {
	keys := make(map[string]string)
	for _, lock := range target.Locks {
		keys[lock.Name] = lock.Key.String()
	}
	unknown := func(lock, datname, why string) report {
		return report{Target: target.Name, Datname: datname, Lock: lock, Key: keys[lock], Verdict: "unknown", Error: why, code: exitFailed}
	}
	why := ""
	switch {
	case pollErr != nil:
		why = strings.Join(strings.Fields(pollErr.Error()), " ") // pgx writes a line for each address
	case snapshot.InRecovery:
		why = "the server is in recovery (a hot standby): it cannot tell who holds the primary's lock"
	}
	if why != "" {
		for _, lock := range target.Locks {
			reports = append(reports, unknown(lock.Name, "", why))
		}
		return reports
	}
	told := make(map[string]bool)
	for _, state := range snapshot.Locks {
		if !state.Known {
			continue
		}
		told[state.Lock+"/"+state.Datname] = true
		reports = append(reports, judgeLock(target.Name, keys[state.Lock], state))
	}
	for _, lock := range target.Locks {
		for _, datname := range lock.Databases {
			if datname != lockwatch.AllDatabases && !told[lock.Name+"/"+datname] {
				reports = append(reports, unknown(lock.Name, datname, fmt.Sprintf("database not found: %s", datname)))
			}
		}
	}
	return reports
}

// judgeLock turns what a poll told of a lock into a report.
func judgeLock(target, key string, state lockwatch.LockState) report {
	found := report{Target: target, Datname: state.Datname, Lock: state.Lock, Key: key, Holders: state.Holders, Waiters: state.Waiters}
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
		found.Verdict, found.code = "multiple", exitMultiple
	case state.Holder == nil:
		found.Verdict, found.code = "unheld", exitUnheld
	default:
		found.Verdict, found.code = "held", exitOK
	}
	return found
}

// printReports writes the reports as a table, or as a stream of JSON objects.
func printReports(w io.Writer, reports []report, format string) error {
	if format == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		for _, r := range reports {
			if err := encoder.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TARGET\tDATNAME\tLOCK\tKEY\tVERDICT\tPID\tAPPLICATION\tUSER\tCLIENT\tBACKEND START\tHEARTBEAT AGE\tWAITERS")
	for _, r := range reports {
		r.printRow(table)
	}
	return table.Flush()
}

// printRow writes a line of the table.
func (r report) printRow(table io.Writer) {
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
	fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", r.Target, cmp.Or(r.Datname, "-"), r.Lock, r.Key, r.Verdict, pid,
		cmp.Or(holder.ApplicationName, "-"), cmp.Or(holder.Usename, "-"), cmp.Or(holder.ClientAddr, "-"), start, age, r.Waiters)
}
