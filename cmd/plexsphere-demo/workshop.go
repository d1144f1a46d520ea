package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/plexsphere/leader-exporter/internal/child"
)

// stopTimeout is how long a process may take to stop before it is killed.
const stopTimeout = 10 * time.Second

// workshop starts processes that have their files and their output in one folder.
type workshop struct{ folder string }

// start starts a program whose output goes to a file of that name in the folder.
func (w workshop) start(name, program string, env []string, args ...string) (*child.Child, error) {
	log, err := os.OpenFile(w.path(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own copy
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	return child.Start(cmd, syscall.SIGKILL)
}

// write writes a file into the folder and returns its path.
func (w workshop) write(name string, content []byte) (string, error) {
	return w.path(name), os.WriteFile(w.path(name), content, 0o600)
}

func (w workshop) path(name string) string { return filepath.Join(w.folder, name) }

// ended returns an error when the process of that name has ended.
func (w workshop) ended(name string, process *child.Child) error {
	select {
	case <-process.Done():
		return fmt.Errorf("%s ended by itself: %w\n%s", name, process.Err(), w.logTail(name))
	default:
		return nil
	}
}

// logTail returns the end of a process's output.
func (w workshop) logTail(name string) string {
	const tail = 2048
	log, err := os.ReadFile(w.path(name + ".log"))
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-tail):])
}

// stop stops the processes at the same time; one that is nil was never started.
func stop(processes ...*child.Child) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
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
	return errors.Join(problems...)
}
