package lockwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pollSQL reads pg_locks once and in one pass, which counts all rows and keeps those of the locks, and only then looks up the backends of
// these. It returns a row for each watched database, with NULLs where nobody holds or wants a lock, and else one for each session and mode.
//
//   - $1, $2, $3: classid, objid and objsubid of the locks
//   - $4: whether to tell of all databases; $5: names of databases to tell of
//
// No backend has pid 0; with NULL the function would return all of them. Both that function and the view pg_stat_activity, which is made of
// it, are in the manual, "The Cumulative Statistics System".
const pollSQL = `
SELECT clock_timestamp(), extract(epoch FROM clock_timestamp() - statement_timestamp())::float8, pg_is_in_recovery(), server.locks,
	d.datname::text, d.datname = current_database(), d.datallowconn AND NOT d.datistemplate, w.lock, w.pid, w.granted, w.exclusive,
	a.pid IS NULL AND w.pid IS NOT NULL, a.backend_start, a.application_name, pg_get_userbyid(a.usesysid)::text, host(a.client_addr),
	extract(epoch FROM clock_timestamp() - a.state_change)::float8
FROM (
	SELECT count(*) AS locks,
		array_agg(ROW(k.lock, l.database, l.pid, l.granted, l.granted AND l.mode = 'ExclusiveLock')) FILTER (WHERE k.lock IS NOT NULL) AS wanted
	FROM pg_locks AS l LEFT JOIN unnest($1::oid[], $2::oid[], $3::int2[]) WITH ORDINALITY AS k(classid, objid, objsubid, lock)
		ON l.locktype = 'advisory' AND l.classid = k.classid AND l.objid = k.objid AND l.objsubid = k.objsubid
) AS server
	JOIN pg_database AS d ON d.datname = current_database() OR $4 OR d.datname = ANY($5::text[])
	LEFT JOIN LATERAL unnest(server.wanted) AS w(lock bigint, database oid, pid int, granted bool, exclusive bool) ON w.database = d.oid
	LEFT JOIN LATERAL pg_stat_get_activity(coalesce(w.pid, 0)) AS a ON true`

// answer is what one poll brought.
type answer struct {
	serverNow  time.Time     // after the read
	spent      time.Duration // by the server, in the statement
	server     Server
	inRecovery bool
	locks      int64
	databases  map[string]databaseAnswer
}

// databaseAnswer is what one poll brought of one database.
type databaseAnswer struct {
	datname      string
	own          bool // the one that the connection is to
	listed       bool // takes connections and is no template
	observations []observation
}

// row is one row of pollSQL.
type row struct {
	now              time.Time
	spentSeconds     float64
	inRecovery       bool
	locks            int64
	datname          string
	own, listed      bool
	lock             *int64 // counts from 1
	pid              *int32
	granted          *bool
	exclusive        *bool
	vanished         bool // there is a session with the lock, but no row of it in pg_stat_activity
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
		conn, server, err := w.connect(ctx)
		if err != nil {
			return answer{}, err
		}
		w.conn, w.server = conn, server
	}
	rows, err := w.conn.Query(ctx, pollSQL, w.cfg.pollArguments()...)
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
	got := digest(seen, len(w.cfg.Locks))
	got.server = w.server
	return got, nil
}

// pollArguments returns the arguments of pollSQL.
func (c Config) pollArguments() []any {
	var classids, objids []uint32
	var objsubids []int16
	var all bool
	names := []string{}
	for _, lock := range c.Locks {
		classid, objid, objsubid := lock.Key.Columns()
		classids, objids, objsubids = append(classids, classid), append(objids, objid), append(objsubids, int16(objsubid))
		all = all || slices.Contains(lock.Databases, AllDatabases)
		names = append(names, lock.Databases...)
	}
	return []any{classids, objids, objsubids, all, names}
}

func scanRow(from pgx.CollectableRow) (row, error) {
	var r row
	err := from.Scan(&r.now, &r.spentSeconds, &r.inRecovery, &r.locks, &r.datname, &r.own, &r.listed, &r.lock, &r.pid, &r.granted,
		&r.exclusive, &r.vanished, &r.backendStart, &r.applicationName, &r.usename, &r.clientAddr, &r.heartbeatSeconds)
	return r, err
}

// digest turns the rows of a poll of so many locks into one answer.
func digest(rows []row, locks int) answer {
	first, last := rows[0], rows[len(rows)-1]
	got := answer{
		serverNow: first.now, inRecovery: first.inRecovery, locks: first.locks,
		spent:     max(0, time.Duration(last.spentSeconds*float64(time.Second))), // the clock may be set back meanwhile
		databases: make(map[string]databaseAnswer),
	}
	type session struct {
		datname string
		lock    int64
		pid     int32
	}
	holders := make(map[session]struct{}) // a session has a row for each mode in which it holds a lock
	for _, r := range rows {
		name := text(&r.datname)
		database, ok := got.databases[name]
		if !ok {
			database = databaseAnswer{datname: name, own: r.own, listed: r.listed, observations: make([]observation, locks)}
			got.databases[name] = database
		}
		if r.lock == nil {
			continue // nobody holds or wants a lock there
		}
		o := &database.observations[*r.lock-1]
		id := session{name, *r.lock, deref(r.pid)}
		if _, counted := holders[id]; deref(r.granted) && !counted {
			holders[id] = struct{}{}
			o.holders++
		}
		if !deref(r.granted) {
			o.waiters++
		}
		if deref(r.exclusive) {
			o.holder, o.vanished = holderOf(r), r.vanished
		}
	}
	return got
}

func holderOf(r row) *Holder {
	h := &Holder{
		PID:             uint32(deref(r.pid)),
		ApplicationName: text(r.applicationName),
		Usename:         text(r.usename),
		ClientAddr:      text(r.clientAddr),
		BackendStart:    deref(r.backendStart),
		Visible:         r.backendStart != nil || r.vanished,
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
