// Package pgserver runs throw-away PostgreSQL clusters for tests and the demo.
//
// As root it runs them as user postgres, since PostgreSQL refuses root, else as the present user. A cluster listens on
// loopback and on a unix socket in its own folder, trusts everybody there, and gives up durability for speed. It ends with
// the process that started it.
package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/internal/child"
	"github.com/plexsphere/leader-exporter/internal/freeport"
)

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 30 * time.Second
	probeEvery   = 20 * time.Millisecond

	addressInUse = "Address already in use" // as the server logs it
)

// Mode is a way to shut a server down (manual, "Shutting Down the Server").
type Mode syscall.Signal

// The shutdown modes.
const (
	Fast      = Mode(syscall.SIGINT)
	Immediate = Mode(syscall.SIGQUIT)
)

// Options say how a cluster differs from a plain one.
type Options struct {
	// Settings are lines of postgresql.conf, by name.
	Settings map[string]string
	// HBA are the lines of pg_hba.conf. Empty trusts every local and loopback connection.
	HBA []string
	// Files are written into the data folder, by name, readable by the server alone.
	Files map[string]string
	// Standby starts the cluster as a hot standby without a primary; SELECT pg_promote() ends that.
	Standby bool
}

// Server is a running cluster. Exec, DSN, Port and SocketFolder may be called from any goroutine while it runs, the methods
// that stop or change it from one goroutine at a time.
type Server struct {
	template *Template
	folder   string
	port     int
	process  *child.Child
}

// Start copies the template and starts a server on the copy. End it with Close.
func Start(ctx context.Context, t *Template, opts Options) (*Server, error) {
	folder, err := t.copyTo(ctx)
	if err != nil {
		return nil, fmt.Errorf("pgserver: %w", err)
	}
	s := &Server{template: t, folder: folder}
	if err := s.configure(opts); err != nil {
		return nil, errors.Join(fmt.Errorf("pgserver: configure: %w", err), s.Close())
	}
	if err := s.startFirst(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// startFirst chooses a port and starts the server there.
func (s *Server) startFirst(ctx context.Context) (err error) {
	if s.port, err = freeport.Take(); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	return s.Start(ctx)
}

// Start starts a stopped server again on the same port.
func (s *Server) Start(ctx context.Context) error {
	logFile, err := os.Create(s.logPath())
	if err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	defer func() { _ = logFile.Close() }() // the server has its own copy
	cmd := command(s.template.as, s.template.bin, "postgres", "-D", s.dataFolder(), "-p", strconv.Itoa(s.port))
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if s.process, err = child.Start(cmd, syscall.SIGQUIT); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("the server did not answer within %v", startTimeout))
	defer cancel()
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		// The probe goes to the socket in the server's own folder: the port may be another server's, since PostgreSQL starts
		// when it gets but one of its addresses.
		probeErr := s.exec(ctx, s.socketDSN(), "SELECT 1")
		if strings.Contains(s.logTail(), addressInUse) {
			return errors.Join(fmt.Errorf("pgserver: port %d: %s", s.port, addressInUse), s.Stop(Immediate))
		}
		if probeErr == nil {
			return nil
		}
		select {
		case <-s.process.Done():
			return fmt.Errorf("pgserver: postgres ended at its start: %w\n%s", s.process.Err(), s.logTail())
		case <-ctx.Done():
			return fmt.Errorf("pgserver: start: %w: %w\n%s", context.Cause(ctx), probeErr, s.logTail())
		case <-ticker.C:
		}
	}
}

// Stop shuts the server down and keeps its data for Start.
func (s *Server) Stop(mode Mode) error {
	if s.process == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return s.process.Stop(ctx, syscall.Signal(mode))
}

// Close shuts the server down and deletes all it kept. A second Close does nothing.
func (s *Server) Close() error {
	s.resumeAll()
	return errors.Join(s.Stop(Immediate), os.RemoveAll(s.folder))
}

// DSN returns the connection string of a database over TCP, as the superuser.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// socketDSN is DSN("postgres") over the unix socket.
func (s *Server) socketDSN() string {
	return fmt.Sprintf("user=postgres host=%s port=%d dbname=postgres sslmode=disable", s.folder, s.port)
}

// Port returns the TCP port, which also names the unix socket.
func (s *Server) Port() int { return s.port }

// SocketFolder returns the folder of the unix socket, libpq's host for it.
func (s *Server) SocketFolder() string { return s.folder }

// Exec runs statements in a database as the superuser.
func (s *Server) Exec(ctx context.Context, database, sql string) error {
	return s.exec(ctx, s.DSN(database), sql)
}

func (s *Server) exec(ctx context.Context, dsn, sql string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		return fmt.Errorf("pgserver: %s: %w", sql, err)
	}
	return nil
}

// SetHBA replaces pg_hba.conf and makes the server read it. It holds for connections made afterwards.
func (s *Server) SetHBA(ctx context.Context, lines ...string) error {
	if err := s.writeHBA(lines); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	// The server logs this before it reads the file, and accepts no connection in between. Whoever asked for a reload that is
	// logged from here on, that one reads what was just written.
	const reloading = "received SIGHUP, reloading configuration files"
	logged := strings.Count(s.log(), reloading)
	if err := s.process.Signal(syscall.SIGHUP); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for strings.Count(s.log(), reloading) == logged {
		select {
		case <-s.process.Done():
			return errors.New("pgserver: reload of pg_hba.conf: the server has stopped")
		case <-ctx.Done():
			return fmt.Errorf("pgserver: reload of pg_hba.conf: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
	return nil
}

// configure writes the configuration files of a new cluster.
func (s *Server) configure(opts Options) error {
	settings := map[string]string{
		"listen_addresses":        loopback(),
		"unix_socket_directories": s.folder,
		"fsync":                   "off",
		"synchronous_commit":      "off",
		"full_page_writes":        "off",
		"shared_buffers":          "16MB",
		"max_wal_size":            "256MB",
		"wal_keep_size":           "64MB", // for a standby that is away for a while
	}
	for name, value := range opts.Settings {
		settings[name] = value
	}
	var lines bytes.Buffer
	for name, value := range settings {
		fmt.Fprintf(&lines, "%s = '%s'\n", name, strings.ReplaceAll(value, "'", "''"))
	}
	file, err := os.OpenFile(filepath.Join(s.dataFolder(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := file.Write(lines.Bytes()); err != nil {
		return errors.Join(err, file.Close())
	}
	if opts.Standby {
		err = os.WriteFile(filepath.Join(s.dataFolder(), "standby.signal"), nil, 0o600)
	}
	err = errors.Join(err, file.Close(), s.writeHBA(opts.HBA))
	for name, content := range opts.Files {
		err = errors.Join(err, writeAs(s.template.as, filepath.Join(s.dataFolder(), name), []byte(content)))
	}
	return err
}

// writeHBA writes pg_hba.conf, which belongs to the server's owner already.
func (s *Server) writeHBA(lines []string) error {
	if len(lines) == 0 {
		lines = []string{
			"local all all trust",
			"host all,replication all 127.0.0.1/32 trust",
			"host all,replication all ::1/128 trust",
		}
	}
	return os.WriteFile(filepath.Join(s.dataFolder(), "pg_hba.conf"), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

func (s *Server) dataFolder() string { return filepath.Join(s.folder, "data") }
func (s *Server) logPath() string    { return filepath.Join(s.folder, "log") }

// log returns what the server logged since its last start.
func (s *Server) log() string {
	log, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(log)
}

// logTail returns the end of log.
func (s *Server) logTail() string {
	const tail = 4096
	log := s.log()
	return log[max(0, len(log)-tail):]
}

// loopback returns the addresses to listen on: IPv6's too where the machine has it.
func loopback() string {
	listener, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return "127.0.0.1"
	}
	_ = listener.Close()
	return "127.0.0.1,::1"
}
