// Package child starts a process that ends with its parent.
package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Child is a running process in a process group of its own, so that a Ctrl-C on the terminal does not reach it. Its
// methods are safe from any goroutine.
type Child struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // what Wait returned; written before done is closed
}

// Start starts cmd. On Linux the kernel sends deathSignal to the process when this one dies.
func Start(cmd *exec.Cmd, deathSignal syscall.Signal) (*Child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr, deathSignal)
	c := &Child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal is sent when the thread that started the process ends, so that thread stays here until the process has
		// gone (prctl(2), PR_SET_PDEATHSIG).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("child: start %s: %w", cmd.Path, err)
	}
	return c, nil
}

// PID returns the process id, which is also the id of its group.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Done is closed when the process has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err returns how the process ended, once Done is closed: nil for exit status 0.
func (c *Child) Err() error {
	<-c.done
	return c.err
}

// Signal sends a signal to the process. It does nothing when the process has ended.
func (c *Child) Signal(sig os.Signal) error {
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("child: signal %d: %w", c.PID(), err)
	}
	return nil
}

// Stop sends sig and waits for the end of the process. When ctx ends first it kills the whole group. It returns an error
// only when it had to.
func (c *Child) Stop(ctx context.Context, sig os.Signal) error {
	if err := c.Signal(sig); err != nil {
		return err
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	}
	// The process was not waited for yet, so its id still is its own.
	_ = syscall.Kill(-c.PID(), syscall.SIGKILL)
	<-c.done
	return fmt.Errorf("child: stop %s: killed after %v went unheeded: %w", c.cmd.Path, sig, context.Cause(ctx))
}
