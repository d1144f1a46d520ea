package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// shutdownGrace is how long Run goes on after its context has ended: for the check that is under way and the unlock
// together (the spec's 2-second context). A step-down's unlock has as long.
const shutdownGrace = 2 * time.Second

var errShutdown = fmt.Errorf("no answer within %v of the end of Run's context", shutdownGrace)

var errAbandoned = errors.New("a panic ended Run first")

// begin reserves the elector for one Run.
func (e *Elector) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running {
		return false
	}
	e.running = true
	return true
}

// finish ends the reservation. A step-down that Run did not come to is done: Run left no lock behind.
func (e *Elector) finish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = false
	e.answerLocked(nil)
}

// outlive returns a context that goes on for shutdownGrace after ctx has ended, and ends the term at the moment ctx ends,
// also while a check is under way. The function that it returns waits for the goroutine that does so: left behind, it could
// end a term of the next Run.
func (e *Elector) outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	grace, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(ended)
		e.endTerm()
		timer := time.NewTimer(shutdownGrace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(errShutdown)
		case <-grace.Done():
		}
	})
	return grace, func() {
		cancel(nil)
		if !unhook() {
			<-ended
		}
	}
}

// resign gives the lock back at the end of Run.
func (e *Elector) resign(grace context.Context) {
	e.dropEar()
	e.unlock(grace)
}

// unlock ends the term, gives the lock back, and answers those who asked for a step-down. The term ends before the unlock is
// sent, so that no other replica can lead while work of this one has not been told to stop. On a standby it only answers.
func (e *Elector) unlock(bounded context.Context) {
	e.endTerm()
	if e.held == nil {
		e.answer(nil)
		return
	}
	pid := e.held.pid
	err := e.held.unlock(bounded, e.statements.unlock)
	if errors.Is(err, errNotHeld) {
		e.reclaim(bounded) // a pooler may have taken the backend away
	}
	e.dropHeld()
	e.answer(err)
	if err != nil {
		e.logger.WarnContext(bounded, "background leader unlock failed", slog.Uint64("pid", uint64(pid)), slog.Any("error", err))
		return
	}
	e.logger.InfoContext(bounded, "background leader lock released", slog.Uint64("pid", uint64(pid)))
}

// abandon leaves no lock behind when a panic or runtime.Goexit unwinds Run; after a normal return it finds nothing to do.
// It does not unlock, because the connection may be in the middle of a statement.
func (e *Elector) abandon(ctx context.Context) {
	led := e.IsLeader()
	e.endTerm()
	e.dropEar()
	if e.held == nil {
		return
	}
	defer e.answer(errAbandoned)
	e.dropHeld()
	if led {
		e.logger.WarnContext(ctx, "background leader lock abandoned after a panic")
	}
}

// dropHeld closes the lock connection, and with it the session and the lock.
func (e *Elector) dropHeld() {
	held := e.held
	e.held = nil
	held.close()
}

// dropEar closes the connection on which a standby listens, if it has one.
func (e *Elector) dropEar() {
	if ear := e.ear; ear != nil {
		e.ear = nil
		ear.close()
	}
}
