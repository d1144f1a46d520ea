package leadertest

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/plexsphere/leader-exporter/lockkey"
)

var (
	lockCall    = regexp.MustCompile(`pg_try_advisory_lock\(([^)]*)\)`)
	unlockCall  = regexp.MustCompile(`pg_advisory_unlock\(([^)]*)\)`)
	idleSetting = regexp.MustCompile(`set_config\('idle_session_timeout', '(\d+)'`)
)

// execute runs one statement and returns its result, all but the ReadyForQuery. It reports false, and does nothing, when the
// session has ended: a backend that is gone takes no lock any more.
func (sess *session) execute(sql string) (result []pgproto3.BackendMessage, alive bool) {
	s := sess.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess.over {
		return nil, false
	}
	return sess.executeLocked(sql), true
}

func (sess *session) executeLocked(sql string) []pgproto3.BackendMessage {
	s := sess.server
	s.statements = append(s.statements, Statement{At: time.Now(), Client: sess.client.name, PID: sess.pid, SQL: sql})
	defer sess.goIdleLocked()
	if value, ok := s.answers[sql]; ok {
		return oneValue(value)
	}
	switch {
	case strings.HasPrefix(sql, "--"):
		return []pgproto3.BackendMessage{&pgproto3.EmptyQueryResponse{}}
	case sql == "SELECT 1":
		return oneValue("1")
	case sql == "SHOW idle_session_timeout":
		return oneValue(strconv.FormatInt(sess.idleTimeout.Milliseconds(), 10))
	case lockCall.MatchString(sql):
		return sess.lockStatementLocked(sql)
	case unlockCall.MatchString(sql):
		return sess.unlockStatementLocked(sql)
	default:
		return []pgproto3.BackendMessage{failure("0A000", "leadertest: no answer is scripted for this statement: "+sql)}
	}
}

// lockStatementLocked runs a plain call of pg_try_advisory_lock, or the elector's statement: an ordered CASE that answers
// with an outcome and, on a grant, sets idle_session_timeout.
func (sess *session) lockStatementLocked(sql string) []pgproto3.BackendMessage {
	key, err := keyOf(lockCall, sql)
	if err != nil {
		return []pgproto3.BackendMessage{failure("42883", err.Error())}
	}
	if !strings.HasPrefix(sql, "SELECT CASE") {
		return oneValue(boolean(sess.tryLockLocked(key)))
	}
	ghost := sess.holdsLocked(key)
	switch {
	case sess.server.recovery:
		return oneValue("recovery")
	case !sess.tryLockLocked(key):
		return oneValue("refused")
	case ghost:
		sess.unlockLocked(key)
		return oneValue("ghost")
	case !sess.holdsLocked(key):
		return oneValue("unheld")
	}
	if setting := idleSetting.FindStringSubmatch(sql); setting != nil {
		millis, err := strconv.Atoi(setting[1])
		if err != nil {
			return []pgproto3.BackendMessage{failure("22023", err.Error())}
		}
		sess.idleTimeout = time.Duration(millis) * time.Millisecond
	}
	return oneValue("granted")
}

// unlockStatementLocked runs a call of pg_advisory_unlock, with PostgreSQL's warning when the lock was not held.
func (sess *session) unlockStatementLocked(sql string) []pgproto3.BackendMessage {
	key, err := keyOf(unlockCall, sql)
	if err != nil {
		return []pgproto3.BackendMessage{failure("42883", err.Error())}
	}
	if sess.unlockLocked(key) {
		return oneValue("t")
	}
	warning := &pgproto3.NoticeResponse{
		Severity: "WARNING", SeverityUnlocalized: "WARNING", Code: "01000",
		Message: "you don't own a lock of type ExclusiveLock",
	}
	return append([]pgproto3.BackendMessage{warning}, oneValue("f")...)
}

// keyOf reads the arguments of the first call in the statement.
func keyOf(call *regexp.Regexp, sql string) (lockkey.Key, error) {
	return lockkey.Parse(strings.ReplaceAll(call.FindStringSubmatch(sql)[1], ", ", "/"))
}

// oneValue is a result of one row with one text column.
func oneValue(value string) []pgproto3.BackendMessage {
	const textOID = 25
	return []pgproto3.BackendMessage{
		&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{
			Name: []byte("value"), DataTypeOID: textOID, DataTypeSize: -1, TypeModifier: -1,
		}}},
		&pgproto3.DataRow{Values: [][]byte{[]byte(value)}},
		&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")},
	}
}

func boolean(b bool) string {
	if b {
		return "t"
	}
	return "f"
}
