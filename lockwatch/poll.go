package lockwatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// applicationName is how the watcher's own backend shows, unless the connection string says otherwise.
const applicationName = "leader-exporter"

// closeGrace is how long a goodbye to the server may take.
const closeGrace = time.Second

// oldestServer is the first major version of PostgreSQL that the elector runs on, and the settings of a session here need.
const oldestServer = 14

// sessionSQL keeps the session from ever writing, from working longer than a poll may take ($1, milliseconds), and from
// being ended for its idleness.
const sessionSQL = `SELECT set_config('default_transaction_read_only', 'on', false),
	set_config('statement_timeout', $1, false), set_config('idle_session_timeout', '0', false)`

// pollSQL reads pg_locks once, filters, and only then looks up the backends. There is always a row; its last columns are
// NULL when nobody holds or wants the lock ($1, $2, $3: classid, objid, objsubid).
const pollSQL = `
WITH seen AS MATERIALIZED (
	SELECT locktype, database, classid, objid, objsubid, pid, mode, granted FROM pg_locks
), wanted AS (
	SELECT pid, granted, granted AND mode = 'ExclusiveLock' AS exclusive FROM seen
	WHERE locktype = 'advisory' AND classid = $1 AND objid = $2 AND objsubid = $3
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
SELECT clock_timestamp(), pg_is_in_recovery(), current_database(), server.locks,
	w.pid, w.granted, w.exclusive,
	a.backend_start, a.application_name, a.usename::text, host(a.client_addr),
	extract(epoch FROM clock_timestamp() - a.state_change)::float8
FROM (SELECT count(*) AS locks FROM seen) AS server
	LEFT JOIN wanted AS w ON true
	LEFT JOIN pg_stat_activity AS a ON a.pid = w.pid`

// answer is what one poll brought.
type answer struct {
	observation
	inRecovery bool
	datname    string
	locks      int64
}

// row is one row of pollSQL.
type row struct {
	now              time.Time
	inRecovery       bool
	datname          string
	locks            int64
	pid              *int32
	granted          *bool
	exclusive        *bool
	backendStart     *time.Time
	applicationName  *string
	usename          *string
	clientAddr       *string
	heartbeatSeconds *float64
}

// ask connects if need be and runs one poll within the timeout. After an error the connection is closed.
func (w *Watcher) ask(ctx context.Context) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.cfg.PollTimeout, fmt.Errorf("no answer within the poll timeout (%v)", w.cfg.PollTimeout))
	defer cancel()
	got, err := w.askOn(ctx)
	if err != nil {
		w.disconnect()
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
	return got, err
}

func (w *Watcher) askOn(ctx context.Context) (answer, error) {
	if w.conn == nil {
		conn, err := w.connect(ctx)
		if err != nil {
			return answer{}, err
		}
		w.conn = conn
	}
	classid, objid, objsubid := w.cfg.Lock.Key.Columns()
	rows, err := w.conn.Query(ctx, pollSQL, classid, objid, int16(objsubid))
	if err != nil {
		return answer{}, err
	}
	seen, err := pgx.CollectRows(rows, scanRow)
	if err != nil {
		return answer{}, err
	}
	if len(seen) == 0 {
		return answer{}, errors.New("the server answered without a row")
	}
	return digest(seen), nil
}

// connect opens the one connection and sets the session up.
func (w *Watcher) connect(ctx context.Context) (*pgx.Conn, error) {
	config, err := w.cfg.ConnConfig()
	if err != nil {
		return nil, &connectError{err}
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = applicationName
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, &connectError{err}
	}
	version := conn.PgConn().ParameterStatus("server_version")
	var major int
	if _, err := fmt.Sscanf(version, "%d", &major); err == nil && major < oldestServer {
		closeNow(conn)
		return nil, fmt.Errorf("the server is PostgreSQL %s, %d or newer is needed", version, oldestServer)
	}
	if _, err := conn.Exec(ctx, sessionSQL, fmt.Sprint(w.cfg.PollTimeout.Milliseconds())); err != nil {
		closeNow(conn)
		return nil, err
	}
	return conn, nil
}

// disconnect closes the connection, if there is one.
func (w *Watcher) disconnect() {
	if w.conn != nil {
		closeNow(w.conn)
		w.conn = nil
	}
}

// closeNow says goodbye and then closes the socket itself: after a timeout pgx would take up to 15 s in the background.
func closeNow(conn *pgx.Conn) {
	socket := conn.PgConn().Conn()
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	_ = conn.Close(ctx)
	_ = socket.Close()
}

func scanRow(from pgx.CollectableRow) (row, error) {
	var r row
	err := from.Scan(&r.now, &r.inRecovery, &r.datname, &r.locks, &r.pid, &r.granted, &r.exclusive,
		&r.backendStart, &r.applicationName, &r.usename, &r.clientAddr, &r.heartbeatSeconds)
	return r, err
}

// digest turns the rows of a poll into one answer.
func digest(rows []row) answer {
	got := answer{inRecovery: rows[0].inRecovery, datname: text(&rows[0].datname), locks: rows[0].locks}
	got.serverNow = rows[0].now
	holders := make(map[int32]struct{}) // a session has a row for each mode in which it holds the lock
	for _, r := range rows {
		switch {
		case r.granted == nil: // the row that is there when there is none
		case *r.granted:
			holders[deref(r.pid)] = struct{}{}
		default:
			got.waiters++
		}
		if deref(r.exclusive) {
			got.holder = holderOf(r)
		}
	}
	got.holders = len(holders)
	return got
}

func holderOf(r row) *Holder {
	h := &Holder{
		PID:             uint32(deref(r.pid)),
		ApplicationName: text(r.applicationName),
		Usename:         text(r.usename),
		ClientAddr:      text(r.clientAddr),
		BackendStart:    deref(r.backendStart),
		Visible:         r.backendStart != nil,
		HeartbeatAge:    -1,
	}
	if r.heartbeatSeconds != nil {
		h.HeartbeatAge = max(0, time.Duration(*r.heartbeatSeconds*float64(time.Second)))
	}
	return h
}

// text makes a label of a name that may hold any bytes: a SQL_ASCII database passes them on as they are.
func text(s *string) string { return strings.ToValidUTF8(deref(s), "\uFFFD") }

// deref returns what p points to, or the zero value for NULL.
func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

// connectError marks an error of the attempt to connect.
type connectError struct{ error }

func (e *connectError) Unwrap() error { return e.error }

// reasonOf classifies a failed poll.
func reasonOf(err error) Reason {
	var pgErr *pgconn.PgError
	var connecting *connectError
	isServer, isConnecting := errors.As(err, &pgErr), errors.As(err, &connecting)
	switch {
	case isServer && strings.HasPrefix(pgErr.Code, "28"):
		return ReasonAuth
	case isServer && pgErr.Code == "42501":
		return ReasonPermission
	case isServer && pgErr.Code == "57014", errors.Is(err, context.DeadlineExceeded), pgconn.Timeout(err):
		return ReasonTimeout
	case isConnecting, !isServer, strings.HasPrefix(pgErr.Code, "57P"), strings.HasPrefix(pgErr.Code, "08"):
		return ReasonConnect
	default:
		return ReasonQuery
	}
}
