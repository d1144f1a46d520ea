package leadertest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/plexsphere/leader-exporter/lockkey"
)

// number is an integer as the elector writes it: a negative one with its type.
const number = `(?:\d+|\(-\d+\)::int[48])`

var (
	lockCall      = regexp.MustCompile(`pg_try_advisory_lock\((` + number + `(?:, ` + number + `)?)\)`)
	unlockCall    = regexp.MustCompile(`pg_advisory_unlock\((` + number + `(?:, ` + number + `)?)\)`)
	foreignCheck  = regexp.MustCompile(`pg_backend_pid\(\) <> (\d+) `)
	idleSetting   = regexp.MustCompile(`set_config\('idle_session_timeout', '(\d+)', false\)`)
	tokenSetting  = regexp.MustCompile(`set_config\('plexsphere\.leader', '(\w+)', false\)`)
	tokenCheck    = regexp.MustCompile(`current_setting\('plexsphere\.leader', true\) = '(\w+)'`)
	notification  = regexp.MustCompile(`pg_notify\('(\w+)', ''\)`)
	subscription  = regexp.MustCompile(`^LISTEN (\w+)$`)
	numberWriting = regexp.MustCompile(`[()]|::int[48]`)
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
	backend := sess.backendLocked()
	if !s.unrecorded {
		s.statements = append(s.statements, Statement{At: time.Now(), Client: sess.client.name, PID: backend.pid, SQL: sql})
	}
	defer backend.goIdleLocked()
	return backend.executeLocked(sql), true
}

func (sess *session) executeLocked(sql string) []pgproto3.BackendMessage {
	s := sess.server
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
	case strings.HasPrefix(sql, "SELECT CASE") && lockCall.MatchString(sql):
		return sess.electorStatementLocked(sql)
	case lockCall.MatchString(sql):
		return withKey(lockCall, sql, func(key lockkey.Key) []pgproto3.BackendMessage { return oneValue(boolean(sess.tryLockLocked(key))) })
	case unlockCall.MatchString(sql):
		return withKey(unlockCall, sql, func(key lockkey.Key) []pgproto3.BackendMessage { return sess.unlockStatementLocked(key, sql) })
	case subscription.MatchString(sql):
		sess.channels = append(sess.channels, subscription.FindStringSubmatch(sql)[1])
		return []pgproto3.BackendMessage{&pgproto3.CommandComplete{CommandTag: []byte("LISTEN")}}
	case idleSetting.MatchString(sql):
		return sess.setIdleTimeoutLocked(idleSetting.FindStringSubmatch(sql)[1], "")
	case tokenCheck.MatchString(sql):
		if tokenCheck.FindStringSubmatch(sql)[1] != sess.token {
			return oneRow(nil)
		}
		return oneValue("1")
	default:
		return []pgproto3.BackendMessage{failure("0A000", "leadertest: no answer is scripted for this statement: "+sql)}
	}
}

// electorStatementLocked runs the elector's statement: an ordered CASE that answers with an outcome.
func (sess *session) electorStatementLocked(sql string) []pgproto3.BackendMessage {
	return withKey(lockCall, sql, func(key lockkey.Key) []pgproto3.BackendMessage {
		if sess.server.recovery {
			return oneValue("recovery")
		}
		if told := foreignCheck.FindStringSubmatch(sql); len(told) > 0 && told[1] != strconv.FormatUint(uint64(sess.pid), 10) {
			if !sess.couldLockLocked(key) {
				return oneValue("refused")
			}
			return oneValue("pooled")
		}
		if token := tokenSetting.FindStringSubmatch(sql); token != nil {
			sess.token = token[1]
		}
		switch ghost := sess.holdsLocked(key); {
		case ghost:
			return oneValue("ghost")
		case !sess.tryLockLocked(key):
			return oneValue("refused")
		case !sess.holdsLocked(key):
			return oneValue("unheld")
		}
		sess.server.lastXID++
		return sess.setIdleTimeoutLocked(idleSetting.FindStringSubmatch(sql)[1], fmt.Sprintf("granted %d %d", sess.pid, sess.server.lastXID))
	})
}

// setIdleTimeoutLocked is set_config of idle_session_timeout in a statement that answers with value.
func (sess *session) setIdleTimeoutLocked(setting, value string) []pgproto3.BackendMessage {
	millis, err := strconv.Atoi(setting)
	if err != nil {
		return []pgproto3.BackendMessage{failure("22023", err.Error())}
	}
	sess.idleTimeout = time.Duration(millis) * time.Millisecond
	return oneValue(value)
}

// unlockStatementLocked runs a call of pg_advisory_unlock, with PostgreSQL's warning when the lock was not held, and the
// notification that may follow in the same statement.
func (sess *session) unlockStatementLocked(key lockkey.Key, sql string) []pgproto3.BackendMessage {
	if !sess.unlockLocked(key) {
		warning := &pgproto3.NoticeResponse{
			Severity: "WARNING", SeverityUnlocalized: "WARNING", Code: "01000",
			Message: "you don't own a lock of type ExclusiveLock",
		}
		return append([]pgproto3.BackendMessage{warning}, oneValue("f")...)
	}
	if channel := notification.FindStringSubmatch(sql); channel != nil {
		sess.server.notifyLocked(sess.pid, channel[1])
	}
	return oneValue("t")
}

// withKey calls run with the key in the arguments of the statement's first call.
func withKey(call *regexp.Regexp, sql string, run func(lockkey.Key) []pgproto3.BackendMessage) []pgproto3.BackendMessage {
	key, err := lockkey.Parse(strings.Replace(numberWriting.ReplaceAllString(call.FindStringSubmatch(sql)[1], ""), ", ", "/", 1))
	if err != nil {
		return []pgproto3.BackendMessage{failure("42883", err.Error())}
	}
	return run(key)
}

// oneValue is a result of one row with one text column.
func oneValue(value string) []pgproto3.BackendMessage { return oneRow([]byte(value)) }

// oneRow is oneValue, where nil is SQL's NULL.
func oneRow(value []byte) []pgproto3.BackendMessage {
	const textOID = 25
	return []pgproto3.BackendMessage{
		&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{
			Name: []byte("value"), DataTypeOID: textOID, DataTypeSize: -1, TypeModifier: -1,
		}}},
		&pgproto3.DataRow{Values: [][]byte{value}},
		&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")},
	}
}

func boolean(b bool) string {
	if b {
		return "t"
	}
	return "f"
}
