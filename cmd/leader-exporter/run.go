package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	promslogflag "github.com/prometheus/common/promslog/flag"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"
	"github.com/prometheus/exporter-toolkit/web/kingpinflag"

	"github.com/plexsphere/leader-exporter/cmd/leader-exporter/config"
	"github.com/plexsphere/leader-exporter/internal/cli"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// The exit codes. 1 and 2 are verdicts of check and nothing else, so that a script can trust them.
const (
	exitOK       = 0 // success; of check: exactly one holder
	exitUnheld   = 1 // check: nobody holds the lock
	exitMultiple = 2 // check: several sessions hold it
	exitFailed   = 3 // no answer: the database, the configuration, or the command line
)

const help = `Proves from pg_locks which replica leads, and exports it to Prometheus.

What to watch comes from the file of --config.file. Without one it is the background leader's lock in one database, which comes from the environment, never from a flag: LEADER_EXPORTER_DSN, else the file that LEADER_EXPORTER_DSN_FILE names, else PLEXSPHERE_DSN, else libpq's PGHOST, PGDATABASE, PGUSER and so on. LEADER_EXPORTER_PASSWORD_FILE names a file with the password. Both files are read again at each connect. A flag can be set by the variable that is shown beside it.

Exit codes: 0 success, and of check: one holder; 1 check: nobody holds the lock; 2 check: several sessions do; 3 no answer: the database, the configuration or the command line is at fault.`

// options is what the command line says.
type options struct {
	web          *web.FlagConfig
	configFile   string
	configCheck  bool
	lifecycle    bool
	pollInterval time.Duration // 0 is that of the file, else the default
	pollTimeout  time.Duration // likewise
	maxDutyCycle float64

	historyPath      string // empty keeps the history in memory
	historyRetention model.Duration
	log              promslog.Config
}

// run is the whole program; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := kingpin.New("leader-exporter", help)
	opts := &options{}
	flags(app, opts)
	commands := commands(app, opts)
	withoutVariables(app)
	command, done, err := cli.Parse(app, args, stdout, stderr)
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
	if opts.configCheck {
		return checkConfig(*opts, stdout, stderr)
	}
	return commands[command](ctx, stdout, stderr)
}

// flags declares the flags of all commands.
func flags(app *kingpin.Application, opts *options) {
	app.Flag("config.file", "What to watch: targets, locks, labels.").PlaceHolder("FILE").StringVar(&opts.configFile)
	app.Flag("config.check", "Read the configuration, say whether it is valid, and exit.").BoolVar(&opts.configCheck)
	app.Flag("poll.interval", fmt.Sprintf("Least time between two reads of pg_locks; %v, or poll_interval of the file.", lockwatch.DefaultPollInterval)).
		PlaceHolder("DURATION").SetValue(&duration{flag: "poll.interval", value: &opts.pollInterval})
	app.Flag("poll.timeout", fmt.Sprintf("Bound on one read, connecting included; %v, or poll_timeout of the file.", lockwatch.DefaultPollTimeout)).
		PlaceHolder("DURATION").SetValue(&duration{flag: "poll.timeout", value: &opts.pollTimeout})
	app.Flag("poll.max-duty-cycle", "Largest share of time that a server may spend in reading pg_locks: where a read takes longer, reads come less often.").
		Default(fmt.Sprint(lockwatch.DefaultMaxDutyCycle)).FloatVar(&opts.maxDutyCycle)
	app.Flag("history.path", "File that keeps the terms of holders; it is made where there is none. Without one, they are kept in memory, and gone at the end.").
		PlaceHolder("FILE").StringVar(&opts.historyPath)
	app.Flag("history.retention", "How long an ended term is kept.").Default("90d").SetValue(&opts.historyRetention)
	app.Flag("web.enable-lifecycle", "Let POST /-/reload reload the configuration, as SIGHUP does.").BoolVar(&opts.lifecycle)
	promslogflag.AddFlags(app, &opts.log)
	app.DefaultEnvars()
	app.Version(version.Print("leader-exporter"))
	app.HelpFlag.Short('h')
	opts.web = kingpinflag.AddFlags(app, ":18861")
}

// commands declares the commands, and returns what each does once the command line is parsed.
func commands(app *kingpin.Application, opts *options) map[string]func(ctx context.Context, stdout, stderr io.Writer) int {
	serveCmd := app.Command("serve", "Serve /metrics until SIGTERM or Ctrl-C.").Default()
	checkCmd := app.Command("check", "Poll once and say who leads.")
	checkOutput := checkCmd.Flag("output", "table or json.").Default("table").Enum("table", "json")
	watchCmd := app.Command("watch", "Print a line for each change of a holder, until SIGTERM or Ctrl-C.")
	watchOutput := watchCmd.Flag("output", "text or json.").Default("text").Enum("text", "json")
	termsCmd := app.Command("terms", "Print terms of holders, newest first, from a running exporter, or from the file of --history.path while no exporter has it open.")
	termsOpts := termsFlags(termsCmd)
	rulesCmd := app.Command("rules", "Print alert rules for Prometheus, made for these intervals and labels.")
	rulesParams := rulesFlags(rulesCmd)
	return map[string]func(ctx context.Context, stdout, stderr io.Writer) int{
		serveCmd.FullCommand(): func(ctx context.Context, _, stderr io.Writer) int { return serve(ctx, *opts, stderr) },
		checkCmd.FullCommand(): func(ctx context.Context, stdout, stderr io.Writer) int {
			return check(ctx, *opts, *checkOutput, stdout, stderr)
		},
		watchCmd.FullCommand(): func(ctx context.Context, stdout, stderr io.Writer) int {
			return watch(ctx, *opts, *watchOutput, stdout, stderr)
		},
		termsCmd.FullCommand(): func(ctx context.Context, stdout, stderr io.Writer) int {
			return terms(ctx, *termsOpts, opts.historyPath, stdout, stderr)
		},
		rulesCmd.FullCommand(): func(_ context.Context, stdout, stderr io.Writer) int {
			return rules(*opts, *rulesParams, stdout, stderr)
		},
	}
}

// withoutVariables keeps variables from setting what is asked of one call: the flags of commands, of which several may have one name, and those that print
// something and end. LEADER_EXPORTER_VERSION, say, is a good name for the version of an image.
func withoutVariables(app *kingpin.Application) {
	model := app.Model()
	for _, flag := range model.Flags {
		if flag.Hidden || flag.Name == app.HelpFlag.Model().Name || flag.Name == app.VersionFlag.Model().Name {
			app.GetFlag(flag.Name).NoEnvar()
		}
	}
	for _, command := range model.Commands {
		for _, flag := range command.Flags {
			app.GetCommand(command.Name).GetFlag(flag.Name).NoEnvar()
		}
	}
}

// validate checks what kingpin cannot.
func (o options) validate() error {
	if !(o.maxDutyCycle > 0 && o.maxDutyCycle <= 1) { // nor NaN
		return fmt.Errorf("--poll.max-duty-cycle=%v: want more than 0 and at most 1", o.maxDutyCycle)
	}
	if time.Duration(o.historyRetention) < time.Minute {
		return fmt.Errorf("--history.retention=%v: want at least 1m", o.historyRetention)
	}
	return nil
}

// validateWeb checks the web configuration, which concerns those who serve: others may not be allowed to read its keys.
func (o options) validateWeb() error {
	if err := web.Validate(*o.web.WebConfigFile); err != nil {
		return fmt.Errorf("--web.config.file=%s: %w", *o.web.WebConfigFile, config.WithoutValues(err))
	}
	return nil
}

// duration is the value of a flag that may be left unset.
type duration struct {
	flag  string
	value *time.Duration
}

// Set implements kingpin.Value.
func (d *duration) Set(text string) error {
	value, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("--%s=%s: %w", d.flag, text, err)
	}
	if value < time.Millisecond {
		return fmt.Errorf("--%s=%v: want at least 1ms", d.flag, value)
	}
	*d.value = value
	return nil
}

// String implements kingpin.Value.
func (d *duration) String() string { return "" }

// checkConfig says whether the configuration is valid.
func checkConfig(opts options, stdout, stderr io.Writer) int {
	specs, err := opts.specs()
	if err = errors.Join(err, opts.validateWeb()); err != nil {
		printProblems(stderr, err)
		return exitFailed
	}
	locks := 0
	for _, s := range specs {
		locks += len(s.target.Locks)
	}
	fmt.Fprintf(stdout, "the configuration is valid: %d targets, %d locks\n", len(specs), locks)
	return exitOK
}

// printProblems prints a line for each problem of the configuration.
func printProblems(stderr io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "leader-exporter: %s\n", strings.TrimSuffix(line, "\n"))
	}
}
