// Package pgbouncer runs throw-away PgBouncers in front of the clusters of package pgserver.
//
// As root it runs them as user postgres, since PgBouncer refuses root too, else as the present user. A PgBouncer listens on
// loopback, lets user postgres in without a password, and passes every database on. It ends with the process that started
// it.
package pgbouncer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/internal/child"
	"github.com/plexsphere/leader-exporter/internal/pgserver"
)

const (
	program = "pgbouncer"

	startTimeout = 30 * time.Second
	stopTimeout  = 10 * time.Second
	probeEvery   = 20 * time.Millisecond

	isUp = "process up: PgBouncer" // as it logs once it listens
)

// Options say in front of which server a PgBouncer stands, and how it shares the server's connections out.
type Options struct {
	// Server is the cluster behind it. It is required, and must run already.
	Server *pgserver.Server
	// Mode is the pool_mode: "session" (also when empty), "transaction" or "statement".
	Mode string
	// PoolSize is how many server connections a database has at most. Zero leaves PgBouncer's default, 20.
	PoolSize int
	// Settings are further lines of section [pgbouncer], by name. They win over those that this package writes, of which
	// listen_addr and listen_port must stay.
	Settings map[string]string
}

// Bouncer is a running PgBouncer. DSN and Admin are safe from any goroutine while it runs, Reload and Close are for one at
// a time.
type Bouncer struct {
	opts    Options
	folder  string
	port    int
	process *child.Child
}

// Start starts a PgBouncer and returns when a connection through it works. It fails when the program is missing, when it
// refuses its settings, and when it does not answer within 30 s. End it with Close.
func Start(ctx context.Context, opts Options) (*Bouncer, error) {
	executable, err := find("/usr/sbin")
	if err != nil {
		return nil, fmt.Errorf("pgbouncer: start: %w", err)
	}
	as, err := pgserver.Owner()
	if err != nil {
		return nil, fmt.Errorf("pgbouncer: start: %w", err)
	}
	b := &Bouncer{opts: opts}
	if err := b.start(ctx, executable, as); err != nil {
		return nil, errors.Join(fmt.Errorf("pgbouncer: start: %w", err), b.Close())
	}
	return b, nil
}

// DSN returns the connection string of a database through the PgBouncer, as the superuser. Database "pgbouncer" is its
// console.
func (b *Bouncer) DSN(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", b.port, database)
}

// Admin runs a command of the console, such as PAUSE or RESUME, and returns when it is done. It fails when the console
// refuses the command.
func (b *Bouncer) Admin(ctx context.Context, command string) error {
	if err := run(ctx, b.DSN("pgbouncer"), command); err != nil {
		return fmt.Errorf("pgbouncer: run %s: %w", command, err)
	}
	return nil
}

// Reload changes the mode of the pools and returns when it holds, which it does for clients that are connected too. It
// fails for an unknown mode, and when the console does not answer.
func (b *Bouncer) Reload(ctx context.Context, mode string) error {
	b.opts.Mode = mode
	if err := b.configure(); err != nil { // RELOAD itself passes a wrong mode over and keeps the old one
		return fmt.Errorf("pgbouncer: reload: %w", err)
	}
	return b.Admin(ctx, "RELOAD")
}

// Close ends the PgBouncer with all connections and deletes what it kept. A second Close does nothing.
func (b *Bouncer) Close() error {
	var err error
	if b.process != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		err = b.process.Stop(ctx, syscall.SIGTERM)
	}
	return errors.Join(err, os.RemoveAll(b.folder))
}

// start starts the program and waits until it is up.
func (b *Bouncer) start(ctx context.Context, executable string, as *syscall.Credential) error {
	if err := b.prepare(as); err != nil {
		return err
	}
	logFile, err := os.Create(b.path("log"))
	if err != nil {
		return err
	}
	defer func() { _ = logFile.Close() }() // PgBouncer has its own copy
	cmd := exec.Command(executable, b.path("pgbouncer.ini"))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if b.process, err = child.Start(cmd, syscall.SIGKILL); err != nil {
		return err
	}
	return b.await(ctx)
}

// await returns when a connection through the PgBouncer works.
func (b *Bouncer) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no answer within %v", startTimeout))
	defer cancel()
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		// Not before it says so: the port may be another's.
		probeErr := errors.New("it is not up")
		if strings.Contains(b.log(), isUp) {
			if probeErr = run(ctx, b.DSN("postgres"), "SELECT 1"); probeErr == nil {
				return nil
			}
		}
		select {
		case <-b.process.Done():
			return fmt.Errorf("ended at its start: %w\n%s", b.process.Err(), b.log())
		case <-ctx.Done():
			return fmt.Errorf("%w: %w\n%s", context.Cause(ctx), probeErr, b.log())
		case <-ticker.C:
		}
	}
}

// run runs one statement on a connection of its own, over the simple protocol, which is all that the console speaks.
func run(ctx context.Context, dsn, sql string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// path returns the path of a file in the folder of the PgBouncer.
func (b *Bouncer) path(file string) string { return filepath.Join(b.folder, file) }

// log returns what the PgBouncer logged.
func (b *Bouncer) log() string {
	log, err := os.ReadFile(b.path("log"))
	if err != nil {
		return err.Error()
	}
	return string(log)
}

// find returns the path of the program: on PATH, else in Debian's folder for it, which is on root's PATH alone.
func find(folder string) (string, error) {
	for _, name := range []string{program, filepath.Join(folder, program)} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s found: looked on PATH and in %s; on Debian: apt-get install pgbouncer", program, folder)
}
