package leader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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

// proveSessionMode returns nil when the pooler ends the connection of s with its backend, which was told to end soon. The session is
// closed either way.
func (e *Elector) proveSessionMode(ctx, bounded context.Context, s *session) error {
	defer e.discard(s)
	wake, cancel := context.WithTimeout(bounded, e.interval/2)
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
	return errSharedSession
}

// probeMillis is the idle time after which the server ends a session behind a pooler: a twentieth of the interval. A shared
// backend that is busy with other clients' transactions is not idle for so long, so they are not disturbed.
func probeMillis(interval time.Duration) int64 {
	const fraction = 20
	return max(1, (interval / fraction).Milliseconds())
}
