package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/promslog"
	promslogflag "github.com/prometheus/common/promslog/flag"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"
	"github.com/prometheus/exporter-toolkit/web/kingpinflag"

	"github.com/plexsphere/leader-exporter/lockkey"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// The exit codes. 1 and 2 are verdicts of check and nothing else, so that a script can trust them.
const (
	exitOK       = 0 // success; of check: exactly one holder
	exitUnheld   = 1 // check: nobody holds the lock
	exitMultiple = 2 // check: several sessions hold it
	exitFailed   = 3 // no answer: the database, the configuration, or the command line
)

// target and lockName are the labels of what is watched without a configuration file.
const (
	targetName = "default"
	lockName   = "background-leader"
)

const help = `Proves from pg_locks which replica leads, and exports it to Prometheus.

The database comes from the environment, never from a flag: LEADER_EXPORTER_DSN, else the file that LEADER_EXPORTER_DSN_FILE names, else PLEXSPHERE_DSN, else libpq's PGHOST, PGDATABASE, PGUSER and so on. LEADER_EXPORTER_PASSWORD_FILE names a file with the password. Both files are read again at each connect. Every flag can be set by the variable shown beside it.

Exit codes: 0 success, and of check: one holder; 1 check: nobody holds the lock; 2 check: several sessions do; 3 no answer: the database, the configuration or the command line is at fault.`

// options is what the command line says.
type options struct {
	web          *web.FlagConfig
	pollInterval time.Duration
	pollTimeout  time.Duration
	log          promslog.Config
	output       string
}

// run is the whole program; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := kingpin.New("leader-exporter", help)
	var opts options
	app.Flag("poll.interval", "Time between two reads of pg_locks.").Default(lockwatch.DefaultPollInterval.String()).DurationVar(&opts.pollInterval)
	app.Flag("poll.timeout", "Bound on one read, connecting included.").Default(lockwatch.DefaultPollTimeout.String()).DurationVar(&opts.pollTimeout)
	promslogflag.AddFlags(app, &opts.log)
	app.DefaultEnvars()
	app.Version(version.Print("leader-exporter"))
	app.HelpFlag.Short('h')

	serveCmd := app.Command("serve", "Serve /metrics until SIGTERM or Ctrl-C.").Default()
	opts.web = kingpinflag.AddFlags(app, ":18861")
	checkCmd := app.Command("check", "Poll once and say who leads.")
	checkCmd.Flag("output", "table or json.").Default("table").EnumVar(&opts.output, "table", "json")

	done := false
	app.UsageWriter(stdout)
	app.ErrorWriter(stderr)
	app.Terminate(func(int) { done = true }) // after --help and --version
	command, err := app.Parse(args)
	if done {
		return exitOK
	}
	if err == nil {
		err = opts.validate()
	}
	if err != nil {
		fmt.Fprintf(stderr, "leader-exporter: %v (try --help)\n", err)
		return exitFailed
	}
	switch command {
	case checkCmd.FullCommand():
		return check(ctx, opts, stdout, stderr)
	case serveCmd.FullCommand():
		return serve(ctx, opts, stderr)
	default:
		fmt.Fprintf(stderr, "leader-exporter: no command %q\n", command)
		return exitFailed
	}
}

// validate checks what kingpin cannot.
func (o options) validate() error {
	if o.pollInterval < time.Millisecond {
		return fmt.Errorf("--poll.interval=%v: want at least 1ms", o.pollInterval)
	}
	if o.pollTimeout < time.Millisecond {
		return fmt.Errorf("--poll.timeout=%v: want at least 1ms", o.pollTimeout)
	}
	return nil
}

// newWatcher makes the watcher of the target that the environment gives.
func newWatcher(opts options, stderr io.Writer) (*lockwatch.Watcher, error) {
	source, err := newSource()
	if err != nil {
		return nil, err
	}
	opts.log.Writer = stderr
	return lockwatch.New(lockwatch.Config{
		ConnConfig:   source.connConfig,
		Locks:        []lockwatch.Lock{{Name: lockName, Key: lockkey.BackgroundLeader()}},
		PollInterval: opts.pollInterval,
		PollTimeout:  opts.pollTimeout,
		Logger:       promslog.New(&opts.log).With(slog.String("target", targetName)),
	})
}
