package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// shutdownGrace is how long Run goes on after its context has ended: for the check that is under way and the unlock
// together (the spec's 2-second context).
const shutdownGrace = 2 * time.Second

var errShutdown = fmt.Errorf("no answer within %v of the end of Run's context", shutdownGrace)

// Elector takes part in the election of one background leader. Make it with New.
type Elector struct {
	pool       *pgxpool.Pool
	interval   time.Duration
	logger     *slog.Logger
	gauge      prometheus.Gauge
	statements statements

	running atomic.Bool
	held    *lockSession // owned by Run; not nil while the server may hold the lock for this replica

	mu      sync.Mutex           // guards writes to current, the gauge, and the members of the current term
	current atomic.Pointer[term] // nil on a standby; read from any goroutine
}

// Run takes part in the election until ctx ends: it checks once at its start and then every CheckInterval. It then ends
// the term, unlocks, closes the lock connection and returns nil, all within 2 s and a little, whatever the server does.
// No fault of the database makes it return earlier; each failed check logs one WARN line.
//
// A panic, for example of the Logger or of a hook of the Pool, ends the term and closes the lock connection before it
// leaves Run. Run may be called again after it has returned or panicked. A call while another one runs returns an error.
func (e *Elector) Run(ctx context.Context) error {
	if !e.running.CompareAndSwap(false, true) {
		return errors.New("leader: run: this elector is already running")
	}
	defer e.running.Store(false)
	defer e.abandon(ctx)
	grace, stop := e.outlive(ctx)
	defer stop()
	ticker := time.NewTicker(e.interval)
	defer ticker.Stop()
	for {
		e.check(ctx, grace)
		select {
		case <-ctx.Done():
			e.resign(grace)
			return nil
		case <-ticker.C:
		}
	}
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

// check is what Run does once every interval.
func (e *Elector) check(ctx, grace context.Context) {
	if ctx.Err() != nil {
		return
	}
	bounded, cancel := context.WithTimeoutCause(grace, e.interval, fmt.Errorf("no answer within one check interval (%v)", e.interval))
	defer cancel()
	if e.held != nil {
		e.verify(ctx, bounded)
		return
	}
	e.campaign(ctx, bounded)
}

// campaign is the check of a standby. bounded outlives ctx for as long as an answer about the lock may take.
func (e *Elector) campaign(ctx, bounded context.Context) {
	held, err := e.tryLock(ctx, bounded)
	if err != nil {
		if ctx.Err() == nil {
			//nolint:sloglint // the spec asks for this very text as the message
			e.logger.WarnContext(ctx, fmt.Sprintf("leader: acquire lock connection: %v", err))
		}
		return
	}
	e.held = held
	if held == nil || !e.startTerm(ctx) {
		return
	}
	e.logger.InfoContext(ctx, "background leader lock acquired", slog.Uint64("pid", uint64(held.pid)))
}

// verify is the check of the leader. One that fails after ctx has ended is the unlock's to report: the term is over.
func (e *Elector) verify(ctx, bounded context.Context) {
	err := e.held.ping(bounded, e.statements.ping)
	if err == nil || ctx.Err() != nil {
		return
	}
	pid := e.held.pid
	e.endTerm()
	e.dropSession()
	e.logger.WarnContext(ctx, "background leader lock lost", slog.Uint64("pid", uint64(pid)), slog.Any("error", err))
}

// resign gives the lock back at the end of Run. The term ends before the unlock is sent, so that no other replica can lead
// while work of this one has not been told to stop.
func (e *Elector) resign(grace context.Context) {
	e.endTerm()
	if e.held == nil {
		return
	}
	pid := e.held.pid
	err := e.held.unlock(grace, e.statements.unlock)
	e.dropSession()
	if err != nil {
		e.logger.WarnContext(grace, "background leader unlock failed", slog.Uint64("pid", uint64(pid)), slog.Any("error", err))
		return
	}
	e.logger.InfoContext(grace, "background leader lock released", slog.Uint64("pid", uint64(pid)))
}

// abandon leaves no lock behind when a panic or runtime.Goexit unwinds Run; after a normal return it finds nothing to do.
// It does not unlock, because the connection may be in the middle of a statement.
func (e *Elector) abandon(ctx context.Context) {
	led := e.IsLeader()
	e.endTerm()
	if e.held == nil {
		return
	}
	e.dropSession()
	if led {
		e.logger.WarnContext(ctx, "background leader lock abandoned after a panic")
	}
}

// dropSession closes the lock connection, and with it the session and the lock.
func (e *Elector) dropSession() {
	held := e.held
	e.held = nil
	held.close()
}
