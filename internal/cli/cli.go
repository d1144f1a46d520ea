// Package cli is what the commands have in common: the end by a signal, and where help and errors go.
package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kingpin/v2"
)

// Main runs a program, whose context ends with SIGINT and SIGTERM, and exits with the code that it returns.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Parse reads the command line and returns the command. done is true when --help or --version was asked for, and has been printed; kingpin
// would exit, and take what is deferred with it.
func Parse(app *kingpin.Application, args []string, stdout, stderr io.Writer) (command string, done bool, err error) {
	app.UsageWriter(stdout)
	app.ErrorWriter(stderr)
	app.Terminate(func(int) { done = true })
	command, err = app.Parse(args)
	return command, done, err
}
