package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// closeGrace is how long the goodbye to the server may take before the socket closes without it.
const closeGrace = time.Second

// lockSession is the connection whose session holds the lock, outside any pool.
type lockSession struct {
	conn *pgx.Conn
	pid  uint32
}

// ping proves that the server still answers on the session.
func (s *lockSession) ping(bounded context.Context, statement string) error {
	_, err := ask(bounded, s.conn, statement)
	return err
}

// unlock gives the lock back.
func (s *lockSession) unlock(bounded context.Context, statement string) error {
	answer, err := ask(bounded, s.conn, statement)
	if err == nil && answer != "t" {
		err = errors.New("the session no longer held the lock")
	}
	return err
}

// close ends the session, and with it the lock.
func (s *lockSession) close() { closeNow(s.conn) }

// closeNow says goodbye and then closes the socket itself: after a timed-out statement pgx closes in the background and
// may take 15 s, and a pool's context watcher may have kept the connection open.
func closeNow(conn *pgx.Conn) {
	socket := conn.PgConn().Conn()
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	_ = conn.Close(ctx)
	_ = socket.Close()
}

// ask sends one statement over the simple query protocol and returns the one value that it answers, in text form. It is
// over when bounded is: it does not rely on the pool's context watcher, which may keep a connection waiting for long after
// a timeout, but on the deadline of the socket. After an error the connection is of no more use.
func ask(bounded context.Context, conn *pgx.Conn, statement string) (string, error) {
	socket := conn.PgConn().Conn()
	inTime := context.AfterFunc(bounded, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })
	results, err := conn.PgConn().Exec(context.Background(), statement).ReadAll()
	switch {
	case !inTime() && err != nil:
		return "", fmt.Errorf("%w: %w", context.Cause(bounded), err)
	case bounded.Err() != nil: // the answer came with the deadline; the socket's state is unknown
		return "", context.Cause(bounded)
	case err != nil:
		return "", err
	case len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != 1:
		return "", errors.New("the server did not answer with one value")
	default:
		return string(results[0].Rows[0][0]), nil
	}
}
