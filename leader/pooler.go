package leader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// A pooler such as PgBouncer tells its clients a process id of its own invention, so a session whose backend has another
// one goes through a pooler. In session mode that does no harm. In transaction mode every statement may run on another
// backend: the lock would stay behind on one that nobody talks to, and the next client there would be granted it too.
//
// What a session lock needs is that the end of the backend reaches the client, so that is what the elector tries: it asks
// the server to end the session after a short idle time and waits for the news. In session mode the pooler must close the
// client's connection too, and the elector asks for the lock on the next one. In transaction mode the client stays connected
// and hears nothing, and the elector takes no lock at all.
//
// A pooler in transaction mode lets go of the backend once it has passed the answer on. One that is slow could pass the
// answer and the news on together, which proves nothing. So the answer must have arrived before the idle time, which began
// after the statement was sent, can have run out.

// route is how a connection reaches its backend.
type route bool

const (
	directly      route = false // until the lock statement finds out
	throughPooler route = true  // in session mode, as was proven
)

// tokenSetting is a setting of the server session that carries the elector's token behind a pooler. A setting with a dot in its
// name may be set by anybody (manual, "Customized Options").
const tokenSetting = "plexsphere.leader"

const codeIdleSessionTimeout = "57P05" // manual, "PostgreSQL Error Codes"

var errSharedSession = errors.New("a connection pooler does not keep this client's session to itself, as with pool_mode = transaction " +
	"or statement of PgBouncer: connect directly or through a pooler in session mode")

// prepare returns the lock statement for the session and fits the leader's check to it.
func (e *Elector) prepare(s *session, way route) string {
	if way == directly {
		s.ping = `SELECT 1`
		return fmt.Sprintf(e.statements.direct, s.pid)
	}
	token := rand.Text()
	s.ping = fmt.Sprintf(`SELECT CASE WHEN current_setting('`+tokenSetting+`', true) = '%s' THEN 1 END`, token)
	return fmt.Sprintf(e.statements.pooled, token)
}

// proveSessionMode returns nil when the pooler ends the connection of s together with its backend, which is told to end soon.
// The session is closed either way. A trial that failed is not repeated for a while: it may end a backend that the pooler has
// just given to another client.
func (e *Elector) proveSessionMode(ctx, bounded context.Context, s *session) error {
	const rest = 12 // intervals
	defer e.discard(s)
	if time.Now().Before(e.sharedUntil) {
		return errSharedSession
	}
	sent := time.Now()
	if _, err := ask(bounded, s.conn, e.statements.trial, nothing); err != nil {
		return err
	}
	trial := trialTime(e.interval)
	if took := time.Since(sent); took >= trial {
		return fmt.Errorf("the connection goes through a pooler that took %v to answer: within %v it could be told whether it keeps sessions", took, trial)
	}
	err := s.awaitEnd(ctx, bounded, 2*trial)
	if errors.Is(err, errSharedSession) {
		e.sharedUntil = sent.Add(rest * e.interval)
	}
	return err
}

// awaitEnd returns nil once the server has ended the session for its idleness, and errSharedSession when that does not
// happen in time.
func (s *session) awaitEnd(ctx, bounded context.Context, limit time.Duration) error {
	wake, cancel := context.WithTimeout(bounded, limit)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	for wake.Err() == nil {
		var ended *pgconn.PgError
		if _, err := s.listen(wake); errors.As(err, &ended) && ended.Code == codeIdleSessionTimeout {
			return nil
		} else if err != nil {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case bounded.Err() != nil: // the connection took so long that the trial was cut short
		return context.Cause(bounded)
	default:
		return errSharedSession
	}
}

// reclaim frees a lock that a pooler took away together with its backend, which may never be idle for long enough to end by
// itself: it ends that backend. If this fails the lock stays, and the next replica is refused and says nothing; the exporter
// shows who holds it.
func (e *Elector) reclaim(bounded context.Context) {
	_, _ = send(bounded, e.held.conn, fmt.Sprintf(e.statements.reclaim, e.held.pid), nothing)
}

// trialTime is the idle time after which the server ends a session behind a pooler: a quarter of the interval, in whole
// milliseconds. A shared backend that is busy with other clients' transactions is not idle for so long, so they are hardly ever
// disturbed.
func trialTime(interval time.Duration) time.Duration {
	const fraction = 4
	return min(max(time.Millisecond, (interval/fraction).Truncate(time.Millisecond)), math.MaxInt32*time.Millisecond)
}
