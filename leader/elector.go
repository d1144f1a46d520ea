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

	"github.com/plexsphere/leader-exporter/lockkey"
)

// Elector takes part in the election of one background leader. Make it with New.
type Elector struct {
	pool       *pgxpool.Pool
	interval   time.Duration
	logger     *slog.Logger
	gauge      prometheus.Gauge
	key        lockkey.Key
	wakes      bool // Config.WakeOnRelease
	statements statements

	// Owned by Run.
	held        *session  // not nil while the server may hold the lock for this replica
	ear         *session  // on which a standby listens, with WakeOnRelease
	sharedUntil time.Time // a pooler was found not to keep sessions, and is not tried again before

	mu        sync.Mutex           // guards the fields below, the gauge, and the members of the current term
	current   atomic.Pointer[term] // nil on a standby; written under mu, read from any goroutine
	running   bool
	interrupt context.CancelFunc // ends the latest wait of Run; nil before the first
	asked     *request           // a step-down that Run has not carried out yet
	restUntil time.Time          // no lock is asked for before it
}

// Run takes part in the election until ctx ends: it checks once at its start and then every CheckInterval. It then ends
// the term, unlocks, closes the lock connection and returns nil, all within 2 s and a little, whatever the server does.
// No fault of the database makes it return earlier; each failed check logs one WARN line.
//
// A panic, for example of the Logger or of a hook of the Pool, ends the term and closes the lock connection before it
// leaves Run. Run may be called again after it has returned or panicked. A call while another one runs returns an error.
func (e *Elector) Run(ctx context.Context) error {
	if !e.begin() {
		return errors.New("leader: run: this elector is already running")
	}
	defer e.finish()
	defer e.abandon(ctx)
	grace, stop := e.outlive(ctx)
	defer stop()
	for due := time.Now(); ; {
		e.check(ctx, grace)
		due = e.following(due)
		if !e.await(ctx, grace, due) {
			e.resign(grace)
			return nil
		}
	}
}

// following returns when the next check is due, after one that was due at the given moment: an interval later, or now when
// that has passed. A check that came early does not move the next one.
func (e *Elector) following(due time.Time) time.Time {
	now := time.Now()
	next := due.Add(e.interval)
	switch {
	case now.Before(due):
		return due
	case next.Before(now):
		return now
	default:
		return next
	}
}

// check is what Run does once every interval.
func (e *Elector) check(ctx, grace context.Context) {
	if ctx.Err() != nil {
		return
	}
	bounded, cancel := context.WithTimeoutCause(grace, e.interval, fmt.Errorf("no answer within one check interval (%v)", e.interval))
	defer cancel()
	switch {
	case e.held != nil:
		e.verify(ctx, bounded)
	case !e.resting():
		e.campaign(ctx, bounded)
	}
}

// await passes the time until the next check is due, and returns true then. Meanwhile it gives up a term whose session ended
// and carries out step-downs. It returns false when ctx has ended.
func (e *Elector) await(ctx, grace context.Context, due time.Time) bool {
	for {
		event, err := e.listen(ctx, due)
		switch {
		case ctx.Err() != nil:
			return false
		case e.stepDownAsked():
			e.carryOutStepDown(grace)
		case err != nil:
			e.lose(ctx, err)
		case event == notified && e.held == nil:
			return true
		case !time.Now().Before(due):
			return true
		}
	}
}

// listen waits on the session that Run keeps, if any, until it ends or is notified, or until something wakes Run: the
// moment due, the end of ctx, or a step-down. It has no goroutine, so that a panic of one of the pool's hooks unwinds Run.
func (e *Elector) listen(ctx context.Context, due time.Time) (event, error) {
	wake, interrupt := context.WithDeadline(ctx, due)
	defer interrupt()
	e.setInterrupt(interrupt)
	switch {
	case e.held != nil:
		return e.held.listen(wake)
	case e.ear != nil:
		return e.ear.listen(wake)
	default:
		<-wake.Done()
		return woken, nil
	}
}

// verify is the check of the leader. Once a stop or a step-down has ended the term there is nothing to check: await gives
// the lock back, and reports a connection that no longer can.
func (e *Elector) verify(ctx, bounded context.Context) {
	sent := time.Now()
	t := e.leading()
	if t == nil && !e.leaving(ctx) {
		e.lose(ctx, e.errStale())
	}
	if t == nil {
		return
	}
	err := e.held.verify(bounded, func() { e.end(t) })
	switch {
	case e.leaving(ctx):
	case err != nil:
		if errors.Is(err, errSharedSession) {
			e.endTerm() // before another replica can have the lock
			e.reclaim(bounded)
		}
		e.lose(ctx, err)
	default:
		e.renew(t, sent)
	}
}

// leaving reports whether Run is to give the lock back: at the end of ctx or for a step-down. Whoever asks for either ends
// the term after this can be seen, or together with it.
func (e *Elector) leaving(ctx context.Context) bool { return ctx.Err() != nil || e.stepDownAsked() }

// lose ends the term and closes the session of a leader that is none any more, or of a listening standby.
func (e *Elector) lose(ctx context.Context, cause error) {
	if e.held == nil {
		e.dropEar()
		return
	}
	pid := e.held.pid
	e.endTerm()
	e.dropHeld()
	e.logger.WarnContext(ctx, "background leader lock lost", slog.Uint64("pid", uint64(pid)), slog.Any("error", cause))
}
