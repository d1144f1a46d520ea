package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/plexsphere/leader-exporter/internal/child"
	"github.com/plexsphere/leader-exporter/internal/pgserver"
)

// stopTimeout is how long a process may take to stop before it is killed.
const stopTimeout = 10 * time.Second

// stack is everything that up starts. It belongs to the goroutine of runUp.
type stack struct {
	opts     upOptions
	folder   string // logs, Prometheus's configuration and data
	template *pgserver.Template
	database *pgserver.Server
	replicas []*replicaProcess

	exporter, prometheus      *child.Child
	exporterAddr, promethAddr string
}

// replica is one process that takes part.
type replicaProcess struct {
	name, address string
	process       *child.Child
	killed        bool // by up, on purpose
}

// startStack starts all parts in order and says what it does. Close what it returns, also after an error.
func startStack(ctx context.Context, opts upOptions, say func(format string, args ...any)) (*stack, error) {
	s := &stack{opts: opts}
	var err error
	if s.folder, err = os.MkdirTemp("", "plexsphere-demo-"); err != nil {
		return s, err
	}
	if s.opts.exporter == "" {
		if s.opts.exporter, err = beside("leader-exporter"); err != nil {
			return s, err
		}
	}
	if _, err := exec.LookPath(opts.prometheus); err != nil {
		return s, fmt.Errorf("--prometheus=%s: %w; on Debian: apt-get install prometheus", opts.prometheus, err)
	}
	say("starting PostgreSQL")
	if s.template, err = pgserver.NewTemplate(ctx); err != nil {
		return s, err
	}
	if s.database, err = pgserver.Start(ctx, s.template, pgserver.Options{}); err != nil {
		return s, err
	}
	if err := s.database.Exec(ctx, "postgres", "CREATE DATABASE plexsphere"); err != nil {
		return s, err
	}
	say("starting %d replicas, leader-exporter and Prometheus", opts.replicas)
	for i := range opts.replicas {
		r := &replicaProcess{name: fmt.Sprintf("plexsphere-%d", i+1)}
		if r.address, err = freeAddress(); err != nil {
			return s, err
		}
		s.replicas = append(s.replicas, r)
		if err := s.startReplica(r); err != nil {
			return s, err
		}
	}
	return s, errors.Join(s.startExporter(), s.startPrometheus())
}

// startReplica starts the replica's process, the first time or again.
func (s *stack) startReplica(r *replicaProcess) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r.killed = false
	r.process, err = s.start(r.name, self, []string{"PLEXSPHERE_DSN=" + s.dsn()},
		"replica", "--name="+r.name, "--web.listen-address="+r.address, "--check-interval="+s.opts.checkInterval.String(),
		"--loop-interval="+s.opts.loopInterval.String())
	return err
}

func (s *stack) startExporter() error {
	var err error
	if s.exporterAddr, err = freeAddress(); err != nil {
		return err
	}
	s.exporter, err = s.start("leader-exporter", s.opts.exporter, []string{"LEADER_EXPORTER_DSN=" + s.dsn()},
		"serve", "--web.listen-address="+s.exporterAddr, "--poll.interval=200ms")
	return err
}

func (s *stack) startPrometheus() error {
	var err error
	if s.promethAddr, err = freeAddress(); err != nil {
		return err
	}
	var replicas []string
	for _, r := range s.replicas {
		replicas = append(replicas, r.address)
	}
	config := filepath.Join(s.folder, "prometheus.yml")
	content := fmt.Sprintf(`global: {scrape_interval: 1s}
scrape_configs:
  - job_name: plexsphere
    static_configs: [{targets: ["%s"], labels: {deployment: demo}}]
  - job_name: leader-exporter
    static_configs: [{targets: ["%s"], labels: {deployment: demo}}]
`, strings.Join(replicas, `", "`), s.exporterAddr)
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		return err
	}
	s.prometheus, err = s.start("prometheus", s.opts.prometheus, nil,
		"--config.file="+config, "--storage.tsdb.path="+filepath.Join(s.folder, "prometheus"), "--web.listen-address="+s.promethAddr)
	return err
}

// start starts a program whose output goes to a file of that name in the folder.
func (s *stack) start(name, program string, env []string, args ...string) (*child.Child, error) {
	log, err := os.OpenFile(s.logPath(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own copy
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	return child.Start(cmd, syscall.SIGKILL)
}

// fault returns an error when a part has ended that was not killed on purpose.
func (s *stack) fault() error {
	parts := map[string]*child.Child{"leader-exporter": s.exporter, "prometheus": s.prometheus}
	for _, r := range s.replicas {
		if !r.killed {
			parts[r.name] = r.process
		}
	}
	for name, process := range parts {
		select {
		case <-process.Done():
			return fmt.Errorf("%s ended by itself: %w\n%s", name, process.Err(), s.logTail(name))
		default:
		}
	}
	return nil
}

// close stops all parts, the database last, and removes every trace.
func (s *stack) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	processes := []*child.Child{s.prometheus, s.exporter}
	for _, r := range s.replicas {
		processes = append(processes, r.process)
	}
	var problems []error
	for _, process := range processes {
		if process != nil {
			problems = append(problems, process.Signal(syscall.SIGTERM))
		}
	}
	for _, process := range processes {
		if process != nil {
			problems = append(problems, process.Stop(ctx, syscall.SIGTERM))
		}
	}
	if s.database != nil {
		problems = append(problems, s.database.Close())
	}
	if s.template != nil {
		problems = append(problems, s.template.Remove())
	}
	if s.folder != "" {
		problems = append(problems, os.RemoveAll(s.folder))
	}
	return errors.Join(problems...)
}

func (s *stack) dsn() string { return s.database.DSN("plexsphere") }

func (s *stack) logPath(name string) string { return filepath.Join(s.folder, name+".log") }

// logTail returns the end of a part's output.
func (s *stack) logTail(name string) string {
	const tail = 2048
	log, err := os.ReadFile(s.logPath(name))
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-tail):])
}

// beside returns the program of that name in the folder of this one.
func beside(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), name)
	if _, err := exec.LookPath(path); err != nil {
		return "", fmt.Errorf("--exporter: %w; \"make build\" puts both programs into bin", err)
	}
	return path, nil
}

// freeAddress returns a loopback address that was free a moment ago.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
