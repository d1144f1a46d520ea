package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// closeGrace is how long the goodbye to the server may take before the socket closes without it.
const closeGrace = time.Second

var errNotHeld = errors.New("the session no longer held the lock")

// event is what ended a wait on a session.
type event int

const (
	woken    event = iota // the wait was over
	notified              // the session received a notification
)

// session is a connection on which the lock is asked for, held, or awaited.
type session struct {
	conn     *pgx.Conn
	borrowed *pgxpool.Conn // nil once the session has left the pool
	pid      uint32        // of the backend; before a grant, what the server told at the start of the connection
	ping     string        // the leader's check
}

// leavePool makes the session the elector's own.
func (s *session) leavePool() {
	if s.borrowed != nil {
		s.conn, s.borrowed = s.borrowed.Hijack(), nil
	}
}

// verify proves that the server still answers on the session. It calls late before it cuts off an answer that is overdue.
func (s *session) verify(bounded context.Context, late func()) error {
	answer, err := ask(bounded, s.conn, s.ping, late)
	if err == nil && answer != "1" {
		err = errSharedSession
	}
	return err
}

// unlock gives the lock back.
func (s *session) unlock(bounded context.Context, statement string) error {
	answer, err := ask(bounded, s.conn, statement, nothing)
	if err == nil && answer != "t" {
		err = errNotHeld
	}
	return err
}

// listen waits until the server notifies the session or ends it, which is an error, or until wake is over. It reads with the
// deadline of the socket, as ask does, and leaves the connection as it was.
func (s *session) listen(wake context.Context) (event, error) {
	socket := s.conn.PgConn().Conn()
	interrupted := make(chan struct{})
	uninterrupted := context.AfterFunc(wake, func() {
		defer close(interrupted)
		_ = socket.SetReadDeadline(longAgo())
	})
	_, err := s.conn.WaitForNotification(context.Background())
	if !uninterrupted() {
		<-interrupted
	}
	switch {
	case err == nil:
		return notified, socket.SetReadDeadline(time.Time{})
	case s.conn.IsClosed(): // pgx closes on every error but a timeout
		return woken, err
	default:
		return woken, socket.SetReadDeadline(time.Time{})
	}
}

// close ends the session, and with it the lock. It says goodbye and then closes the socket itself: after a timed-out
// statement pgx closes in the background and may take 15 s, and a pool's context watcher may have kept the connection open. As
// in send, only the deadline of the socket bounds the goodbye.
func (s *session) close() {
	s.leavePool()
	socket := s.conn.PgConn().Conn()
	_ = socket.SetDeadline(time.Now().Add(closeGrace))
	_ = s.conn.Close(context.Background())
	_ = socket.Close()
}

// ask sends one statement and returns the one value that it answers, in text form.
func ask(bounded context.Context, conn *pgx.Conn, statement string, late func()) (string, error) {
	results, err := send(bounded, conn, statement, late)
	switch {
	case err != nil:
		return "", err
	case len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != 1:
		return "", errors.New("the server did not answer with one value")
	default:
		return string(results[0].Rows[0][0]), nil
	}
}

// send sends one statement over the simple query protocol. It is over when bounded is: it does not rely on the pool's
// context watcher, which may keep a connection waiting for long after a timeout, but on the deadline of the socket. Before it
// cuts an answer off it calls late. After an error the connection is of no more use.
func send(bounded context.Context, conn *pgx.Conn, statement string, late func()) ([]*pgconn.Result, error) {
	socket := conn.PgConn().Conn()
	inTime := context.AfterFunc(bounded, func() {
		late()
		_ = socket.SetDeadline(longAgo())
	})
	results, err := conn.PgConn().Exec(context.Background(), statement).ReadAll()
	switch {
	case !inTime() && err != nil:
		return nil, fmt.Errorf("%w: %w", context.Cause(bounded), err)
	case bounded.Err() != nil: // the answer came with the deadline; the socket's state is unknown
		return nil, context.Cause(bounded)
	default:
		return results, err
	}
}

// longAgo is a deadline that has passed.
func longAgo() time.Time { return time.Unix(1, 0) }

func nothing() {}
