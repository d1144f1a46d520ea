package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
)

// stack is everything that up starts. It belongs to the goroutine of runUp.
type stack struct {
	opts     upOptions
	folder   string // logs, configurations, and data of Prometheus and Alertmanager
	template *pgserver.Template
	database *pgserver.Server
	*deployment
	monitor *monitor
}

// startStack starts all parts in order and says what it does. Close what it returns, also after an error.
func startStack(ctx context.Context, opts upOptions, say func(format string, args ...any)) (*stack, error) {
	s := &stack{opts: opts}
	var err error
	if s.folder, err = os.MkdirTemp("", "plexsphere-demo-"); err != nil {
		return s, err
	}
	if err := s.findPrograms(); err != nil {
		return s, err
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
	say("starting %d replicas, leader-exporter, Alertmanager and Prometheus", opts.replicas)
	if s.deployment, err = newDeployment(s.folder, "demo", s.database.DSN("plexsphere"), s.opts); err != nil {
		return s, err
	}
	if err := s.startAll(); err != nil {
		return s, err
	}
	s.monitor, err = startMonitor(s.folder, s.opts, s.deployment)
	return s, err
}

// findPrograms looks for what is to be started before anything is.
func (s *stack) findPrograms() (err error) {
	if s.opts.exporter == "" {
		if s.opts.exporter, err = beside("leader-exporter"); err != nil {
			return err
		}
	}
	if _, err := exec.LookPath(s.opts.prometheus); err != nil {
		return fmt.Errorf("--prometheus=%s: %w; on Debian: apt-get install prometheus", s.opts.prometheus, err)
	}
	if _, err := exec.LookPath(s.opts.alertmanager); err != nil {
		return fmt.Errorf("--alertmanager=%s: %w; on Debian: apt-get install prometheus-alertmanager", s.opts.alertmanager, err)
	}
	return nil
}

// fault returns an error when a part has ended that was not killed on purpose.
func (s *stack) fault() error { return errors.Join(s.deployment.fault(), s.monitor.fault()) }

// close stops all parts, the database last, and removes every trace.
func (s *stack) close() error {
	var problems []error
	if s.monitor != nil {
		problems = append(problems, s.monitor.close())
	}
	if s.deployment != nil {
		problems = append(problems, stop(s.processes()...))
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
