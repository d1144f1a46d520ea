package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// errSessionEnded marks the error of a session that had ended before the lock statement, or with it. The pool looks for such a
// session only after a second of idleness; a server that was restarted faster would cost a standby a whole check.
var errSessionEnded = errors.New("the session has ended")

// campaign is the check of a standby. bounded outlives ctx for as long as an answer about the lock may take.
func (e *Elector) campaign(ctx, bounded context.Context) {
	sent := time.Now()
	fence, err := e.tryLock(ctx, bounded, directly)
	if errors.Is(err, errSessionEnded) && ctx.Err() == nil {
		sent = time.Now()
		fence, err = e.tryLock(ctx, bounded, directly)
	}
	switch {
	case err != nil && ctx.Err() == nil:
		//nolint:sloglint // the spec asks for this very text as the message
		e.logger.WarnContext(ctx, fmt.Sprintf("leader: acquire lock connection: %v", err))
	case e.held != nil && e.startTerm(ctx, fence, sent):
		e.logger.InfoContext(ctx, "background leader lock acquired", slog.Uint64("pid", uint64(e.held.pid)), slog.Uint64("fence", fence))
	}
}

// tryLock asks for the lock. On a grant it sets held and returns the fence; when another session holds the lock it returns
// no error. ctx ends the wait for a connection; once the lock was asked for, only bounded does, because the answer decides
// whether the session holds the lock.
func (e *Elector) tryLock(ctx, bounded context.Context, way route) (fence uint64, err error) {
	s, err := e.borrow(ctx, bounded)
	if err != nil {
		return 0, err
	}
	outcome, grant, err := e.askForLock(bounded, s, way)
	if err != nil {
		return 0, err
	}
	switch outcome {
	case outcomeGranted:
		return e.hold(s, grant)
	case outcomePooled:
		if err := e.proveSessionMode(ctx, bounded, s); err != nil {
			return 0, err
		}
		return e.tryLock(ctx, bounded, throughPooler)
	case outcomeRefused:
		if !e.wakes || s == e.ear {
			e.giveBack(s)
			return 0, nil
		}
		if err := e.subscribe(bounded, s); err != nil {
			return 0, err
		}
		return e.tryLock(ctx, bounded, way) // the lock may have been given back before anybody listened
	case outcomeRecovery:
		e.giveBack(s)
		return 0, errors.New("the server is in recovery (a hot standby): its advisory locks are not the primary's")
	default:
		e.discard(s)
		return 0, e.outcomeError(outcome, s.pid)
	}
}

// borrow returns the session on which a standby listens, else one of the pool's. ctx or bounded end the wait for it.
func (e *Elector) borrow(ctx, bounded context.Context) (*session, error) {
	if e.ear != nil {
		return e.ear, nil
	}
	waiting, cancel := context.WithCancelCause(bounded)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	conn, err := e.pool.Acquire(waiting)
	if err != nil && bounded.Err() != nil {
		return nil, fmt.Errorf("%w: %w", context.Cause(bounded), err)
	}
	if err != nil {
		return nil, err
	}
	if err := requireVersion(conn); err != nil {
		conn.Release()
		return nil, err
	}
	return &session{conn: conn.Conn(), borrowed: conn, pid: conn.Conn().PgConn().PID()}, nil
}

// askForLock sends the lock statement and returns its outcome, with what follows it. A session lock survives an error, a
// rollback and a cancelled statement: without an answer the connection must close, also when something panics on the way.
func (e *Elector) askForLock(bounded context.Context, s *session, way route) (outcome, grant string, err error) {
	answered := false
	defer func() {
		if !answered {
			e.discard(s)
		}
	}()
	answer, err := ask(bounded, s.conn, e.prepare(s, way), nothing)
	switch {
	case err != nil && s.conn.IsClosed() && bounded.Err() == nil:
		return "", "", fmt.Errorf("%w: %w", errSessionEnded, err)
	case err != nil:
		return "", "", err
	}
	answered = true
	outcome, grant, _ = strings.Cut(answer, " ")
	return outcome, grant, nil
}

// hold keeps a session that was granted the lock. The grant names its backend and the fence.
func (e *Elector) hold(s *session, grant string) (fence uint64, err error) {
	if _, err := fmt.Sscanf(grant, "%d %d", &s.pid, &fence); err != nil {
		e.discard(s)
		return 0, fmt.Errorf("unexpected grant %q of the lock statement: %w", grant, err)
	}
	s.leavePool()
	e.held, e.ear = s, nil
	return fence, nil
}

// subscribe makes the session the one on which this standby listens.
func (e *Elector) subscribe(bounded context.Context, s *session) error {
	s.leavePool()
	e.ear = s // before the statement, so that whatever becomes of it finds the session there
	if _, err := send(bounded, s.conn, e.statements.subscribe, nothing); err != nil {
		e.discard(s)
		return err
	}
	return nil
}

// giveBack returns a session that is known to hold nothing to the pool. The one on which a standby listens stays.
func (e *Elector) giveBack(s *session) {
	if s.borrowed != nil {
		s.borrowed.Release()
	}
}

// discard closes a session.
func (e *Elector) discard(s *session) {
	if s == e.ear {
		e.ear = nil
	}
	s.close()
}

// outcomeError explains an outcome of the lock statement that shows a session which must not go on.
func (e *Elector) outcomeError(outcome string, pid uint32) error {
	switch outcome {
	case outcomeGhost:
		return fmt.Errorf("session %d already held lock %v by another use of the pool: closed it, such a lock is no leadership", pid, e.key)
	case outcomeUnheld:
		return fmt.Errorf("the server granted lock %v but pg_locks does not show it for session %d: its advisory locks cannot be trusted", e.key, pid)
	default:
		return fmt.Errorf("unexpected outcome %q of the lock statement", outcome)
	}
}
