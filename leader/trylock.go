package leader

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/lockkey"
)

// oldestServer is the first major version of PostgreSQL that has idle_session_timeout.
const oldestServer = 14

// tryLock asks for the lock on a connection of the pool. It returns nil and no error when another session holds it. ctx
// ends the wait for a connection; once the lock was asked for, only bounded does, because the answer decides whether this
// session holds the lock.
func (e *Elector) tryLock(ctx, bounded context.Context) (*lockSession, error) {
	conn, err := e.acquire(ctx, bounded)
	if err != nil {
		return nil, err
	}
	if err := requireVersion(conn.Conn().PgConn()); err != nil {
		conn.Release()
		return nil, err
	}
	held := &lockSession{pid: conn.Conn().PgConn().PID()}
	// A session lock survives an error, a rollback and a cancelled statement: unless the session is known to hold nothing,
	// its connection must close, also when something panics on the way.
	nothingHeld, granted := false, false
	defer func() {
		switch {
		case nothingHeld:
			conn.Release()
		case !granted:
			closeNow(conn.Hijack())
		}
	}()
	outcome, err := ask(bounded, conn.Conn(), e.statements.tryLock)
	if err != nil {
		return nil, err
	}
	switch outcome {
	case outcomeRefused:
		nothingHeld = true
		return nil, nil
	case outcomeGranted:
		granted = true
		held.conn = conn.Hijack()
		return held, nil
	default:
		nothingHeld = outcome == outcomeRecovery
		return nil, outcomeError(outcome, held.pid)
	}
}

// acquire borrows a connection from the pool, until ctx or bounded ends.
func (e *Elector) acquire(ctx, bounded context.Context) (*pgxpool.Conn, error) {
	waiting, cancel := context.WithCancelCause(bounded)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	conn, err := e.pool.Acquire(waiting)
	if err != nil && bounded.Err() != nil {
		return nil, fmt.Errorf("%w: %w", context.Cause(bounded), err)
	}
	return conn, err
}

// requireVersion refuses a server without idle_session_timeout, before anything is locked there. A server that does not
// tell its version is left to refuse the setting itself.
func requireVersion(conn *pgconn.PgConn) error {
	version := conn.ParameterStatus("server_version")
	if major, ok := majorVersion(version); ok && major < oldestServer {
		return fmt.Errorf("the server is PostgreSQL %s: idle_session_timeout, which bounds an orphaned lock, needs PostgreSQL %d or newer",
			version, oldestServer)
	}
	return nil
}

// majorVersion reads the number that server_version begins with: 15 of "15.18 (Debian 15.18-0+deb12u1)", 19 of "19devel".
func majorVersion(version string) (int, bool) {
	digits := 0
	for digits < len(version) && '0' <= version[digits] && version[digits] <= '9' {
		digits++
	}
	major, err := strconv.Atoi(version[:digits])
	return major, err == nil
}

// outcomeError explains an outcome of the lock statement that is neither a grant nor a refusal.
func outcomeError(outcome string, pid uint32) error {
	key := lockkey.BackgroundLeader()
	switch outcome {
	case outcomeRecovery:
		return errors.New("the server is in recovery (a hot standby): its advisory locks are not the primary's")
	case outcomeGhost:
		return fmt.Errorf("session %d already held lock %v by another use of the pool: closed it, such a lock is no leadership", pid, key)
	case outcomeUnheld:
		return fmt.Errorf("the server granted lock %v but pg_locks does not show it for session %d: its advisory locks cannot be trusted", key, pid)
	default:
		return fmt.Errorf("unexpected outcome %q of the lock statement", outcome)
	}
}
