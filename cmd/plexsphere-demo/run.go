package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"

	"github.com/plexsphere/leader-exporter/cmd/plexsphere-demo/replica"
	"github.com/plexsphere/leader-exporter/internal/cli"
)

// The exit codes.
const (
	exitOK     = 0
	exitBroken = 1 // the election broke its promise, or something could not be started
	exitUsage  = 2
)

const help = `Shows the election of a background leader on one machine.

"up" starts a throw-away PostgreSQL, replicas that elect a leader among them, leader-exporter, a Prometheus that scrapes them all and evaluates the alerts, and an Alertmanager. The replicas run background loops over rows that fall due all the time. It prints a line for each change of the leader, and one for each page as it arrives and as it is over. With --duration it ends with exit code 0 if at every moment seen at most one replica claimed to lead, beyond the documented overlap, if exactly one does at the end, if every row was handled once and in time, and if the loops ran where they may and no more often than they should; with 1 otherwise. Ctrl-C stops it and leaves nothing behind.`

// run is the whole program; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := kingpin.New("plexsphere-demo", help)
	app.Version(version.Print("plexsphere-demo"))
	app.HelpFlag.Short('h')

	var up upOptions
	upCmd := app.Command("up", "Start everything and watch it.").Default()
	upCmd.Flag("replicas", "How many replicas take part.").Default("3").IntVar(&up.replicas)
	upCmd.Flag("check-interval", "The replicas' CheckInterval.").Default("2s").DurationVar(&up.checkInterval)
	upCmd.Flag("loop-interval", "Time from one pass of the replicas' loops to the next.").Default("500ms").DurationVar(&up.loopInterval)
	upCmd.Flag("kill-leader-every", "Kill the leading process this often, so that a handover can be seen; 0s never does.").Default("0s").DurationVar(&up.killEvery)
	upCmd.Flag("duration", "End after this time; 0s goes on until Ctrl-C.").Default("0s").DurationVar(&up.duration)
	upCmd.Flag("exporter", "The leader-exporter to run; by default the one beside this program.").StringVar(&up.exporter)
	upCmd.Flag("prometheus", "The Prometheus to run.").Default("prometheus").StringVar(&up.prometheus)
	upCmd.Flag("alertmanager", "The Alertmanager to run.").Default("prometheus-alertmanager").StringVar(&up.alertmanager)

	replicaCmd := app.Command("replica", "Be one replica of the database in PLEXSPHERE_DSN, until SIGTERM: elector, background loops, /metrics and /readyz. Without PLEXSPHERE_DSN there is no election and no loop.")
	rep, breaks := replicaFlags(replicaCmd)

	command, done, err := cli.Parse(app, args, stdout, stderr)
	if done {
		return exitOK
	}
	switch {
	case err != nil:
	case command == upCmd.FullCommand():
		err = up.validate()
	default:
		rep.Breaks, err = parseBreaks(*breaks)
		err = errors.Join(err, validateReplica(rep))
	}
	if err != nil {
		fmt.Fprintf(stderr, "plexsphere-demo: %v (try --help)\n", err)
		return exitUsage
	}
	if command == replicaCmd.FullCommand() {
		err = replica.Run(ctx, *rep, slog.New(slog.NewTextHandler(stderr, nil)))
	} else {
		err = runUp(ctx, up, stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "plexsphere-demo: %v\n", err)
		return exitBroken
	}
	return exitOK
}

// upOptions is what the command line says to up.
type upOptions struct {
	replicas             int
	checkInterval        time.Duration
	loopInterval         time.Duration
	killEvery, duration  time.Duration
	exporter, prometheus string
	alertmanager         string
}

// validate checks the bounds of the flags.
func (o upOptions) validate() error {
	var problems []error
	if o.replicas < 1 || o.replicas > 50 {
		problems = append(problems, fmt.Errorf("--replicas=%d: want 1 to 50", o.replicas))
	}
	if o.checkInterval < 50*time.Millisecond {
		problems = append(problems, fmt.Errorf("--check-interval=%v: want at least 50ms", o.checkInterval))
	}
	if _, err := o.rules(); err != nil && len(problems) == 0 {
		problems = append(problems, fmt.Errorf("--check-interval=%v: %w", o.checkInterval, err))
	}
	if o.loopInterval < 50*time.Millisecond {
		problems = append(problems, fmt.Errorf("--loop-interval=%v: want at least 50ms", o.loopInterval))
	}
	if o.killEvery < 0 || o.duration < 0 {
		problems = append(problems, errors.New("--kill-leader-every and --duration: want 0s or more"))
	}
	return errors.Join(problems...)
}
