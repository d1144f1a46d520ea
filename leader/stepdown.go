package leader

import (
	"context"
	"fmt"
	"time"
)

// request is a step-down that waits for Run to carry it out.
type request struct {
	done chan struct{}
	err  error // of the unlock; written before done is closed
}

// StepDown gives leadership up, and keeps this replica from taking it again for the length of cooldown; on a standby it
// does only the latter. Zero and negative cooldowns let the replica ask for the lock again at its next check; one of two
// CheckIntervals or more makes sure that another healthy replica comes first. A second call makes the rest longer, never
// shorter.
//
// The term has ended when StepDown returns, whatever it returns. It waits until Run has unlocked and closed the lock
// connection, at most 2 s and a check under way, or until ctx ends: the unlock is then still to come. It returns the error
// of an unlock that failed; the closed connection, or the server after four CheckIntervals, frees the lock then. Without a
// Run under way there is no lock to give back. Safe from any goroutine, also from the work of the term itself, but there not
// with a context of the term, which ends with it. A Logger or a hook of the Pool must not wait for it: Run waits for them.
func (e *Elector) StepDown(ctx context.Context, cooldown time.Duration) error {
	asked := e.askStepDown(cooldown)
	if asked == nil {
		return nil
	}
	select {
	case <-asked.done:
		if asked.err != nil {
			return fmt.Errorf("leader: step down: unlock: %w", asked.err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("leader: step down: wait for the unlock: %w", context.Cause(ctx))
	}
}

// askStepDown ends the term and tells Run to give the lock back. It returns nil when there is no Run.
func (e *Elector) askStepDown(cooldown time.Duration) *request {
	e.mu.Lock()
	defer e.mu.Unlock()
	if until := time.Now().Add(cooldown); until.After(e.restUntil) {
		e.restUntil = until
	}
	e.endTermLocked()
	if !e.running {
		return nil
	}
	if e.asked == nil {
		e.asked = &request{done: make(chan struct{})}
	}
	if e.interrupt != nil {
		e.interrupt()
	}
	return e.asked
}

// setInterrupt says how a step-down wakes Run, and wakes it at once when one was asked for.
func (e *Elector) setInterrupt(interrupt context.CancelFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.interrupt = interrupt
	if e.asked != nil {
		interrupt()
	}
}

func (e *Elector) stepDownAsked() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked != nil
}

// carryOutStepDown gives the lock back, if Run has it.
func (e *Elector) carryOutStepDown(grace context.Context) {
	bounded, cancel := context.WithTimeoutCause(grace, shutdownGrace, fmt.Errorf("no answer within %v", shutdownGrace))
	defer cancel()
	e.unlock(bounded)
}

// answer tells those who asked for a step-down how it went.
func (e *Elector) answer(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answerLocked(err)
}

func (e *Elector) answerLocked(err error) {
	if e.asked != nil {
		e.asked.err = err
		close(e.asked.done)
		e.asked = nil
	}
}

// resting reports whether a step-down keeps the replica from asking for the lock.
func (e *Elector) resting() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Now().Before(e.restUntil)
}
