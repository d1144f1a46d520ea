package leader

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/plexsphere/leader-exporter/lockkey"
)

// The outcomes of the lock statement.
const (
	outcomeGranted  = "granted" // followed by the pid of the backend and the fence
	outcomeRefused  = "refused"
	outcomeRecovery = "recovery"
	outcomeGhost    = "ghost"
	outcomeUnheld   = "unheld"
	outcomePooled   = "pooled"
)

// statements is what an Elector sends. They go out over the simple query protocol, so a pooler needs to know of no
// prepared statement, and with their numbers written in: pgx takes parameters in that protocol only where client_encoding
// is UTF8, and a SQL_ASCII or LATIN1 database must elect a leader too.
type statements struct {
	direct, pooled string // the two forms of the lock statement; see lock
	trial          string // see proveSessionMode
	reclaim        string // see Elector.reclaim
	unlock         string
	subscribe      string
}

// lockRow is the condition for the row of pg_locks by which a session holds the lock.
const lockRow = `locktype = 'advisory' AND granted AND classid = %[2]d AND objid = %[3]d AND objsubid = %[4]d` +
	` AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// ownLockRow selects that row if this session holds the lock.
const ownLockRow = `SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND ` + lockRow

// tryLock asks for the lock and answers with one outcome. PostgreSQL evaluates the branches of a CASE in order and no
// further than it must (manual, "Expression Evaluation Rules").
//
// The lock functions count: a session that already holds the lock is granted it again, and pg_locks does not show how
// often. So one grant is given back, and what is then left belongs to somebody else's use of this connection. pg_locks is
// read only when the lock was granted, because a read of it stalls other sessions' lock calls. The bound on an orphan is
// set in the same statement, so that nothing can come between the lock and its bound.
//
// The fence is taken last, when no earlier leader can take one any more. The message in the write-ahead log, flushed on
// this server, makes sure that a crash does not hand the same transaction id out again: an id without a change is committed
// without a flush, whatever synchronous_commit says.
const tryLock = `SELECT CASE` +
	` WHEN pg_is_in_recovery() THEN '` + outcomeRecovery + `'` +
	`%[6]s` +
	` WHEN NOT pg_try_advisory_lock(%[1]s) THEN '` + outcomeRefused + `'` +
	` WHEN NOT pg_advisory_unlock(%[1]s) THEN '` + outcomeUnheld + `'` +
	` WHEN EXISTS (` + ownLockRow + `) THEN '` + outcomeGhost + `'` +
	` WHEN NOT pg_try_advisory_lock(%[1]s) THEN '` + outcomeRefused + `'` +
	` WHEN NOT EXISTS (` + ownLockRow + `) THEN '` + outcomeUnheld + `'` +
	` WHEN set_config('idle_session_timeout', '%[5]d', false) IS NULL` +
	` OR set_config('synchronous_commit', 'local', true) IS NULL` +
	` OR pg_logical_emit_message(true, 'background leader', ''::text) IS NULL THEN NULL` +
	` ELSE '` + outcomeGranted + ` ' || pg_backend_pid()::text || ' ' || pg_current_xact_id()::text END`

// foreignBackend is the branch of tryLock for a connection that may go through a pooler; see pooler.go. It takes the lock
// in shared mode and for the length of the statement, to see whether it is free.
const foreignBackend = ` WHEN pg_backend_pid() <> %%[1]d THEN CASE` +
	` WHEN pg_try_advisory_xact_lock_shared(%[1]s) THEN '` + outcomePooled + `'` +
	` ELSE '` + outcomeRefused + `' END`

// ownToken is the branch of tryLock, never taken, that leaves a token on a session behind a pooler.
const ownToken = ` WHEN set_config('` + tokenSetting + `', '%s', false) IS NULL THEN NULL`

// newStatements writes the election's key and its times into the statements.
func newStatements(key lockkey.Key, interval time.Duration, wakes bool) statements {
	classid, objid, objsubid := key.Columns()
	call := arguments(key)
	lock := func(branch string) string {
		return fmt.Sprintf(tryLock, call, classid, objid, objsubid, orphanBoundMillis(interval), branch)
	}
	s := statements{
		direct:  lock(fmt.Sprintf(foreignBackend, call)),
		pooled:  lock(ownToken),
		trial:   fmt.Sprintf(`SELECT set_config('idle_session_timeout', '%d', false)`, trialTime(interval).Milliseconds()),
		reclaim: fmt.Sprintf(`SELECT pg_terminate_backend(pid) FROM pg_locks WHERE pid = %[1]s AND `+lockRow, `%d`, classid, objid, objsubid),
		unlock:  fmt.Sprintf(`SELECT pg_advisory_unlock(%s)`, call),
	}
	if wakes {
		channel := fmt.Sprintf("background_leader_%d_%d_%d", classid, objid, objsubid)
		s.subscribe = `LISTEN ` + channel
		// PostgreSQL delivers at the end of the transaction, when the lock is free.
		s.unlock = fmt.Sprintf(`SELECT pg_advisory_unlock(%s) AND pg_notify('%s', '')::text = ''`, call, channel)
	}
	return s
}

// arguments writes the key as the lock functions take it.
func arguments(key lockkey.Key) string {
	class, object, isPair := strings.Cut(key.String(), "/")
	if !isPair {
		return literal(class, "int8")
	}
	return literal(class, "int4") + ", " + literal(object, "int4")
}

// literal writes a number. PostgreSQL reads the smallest int4 as the negative of a number that is an int8, so a negative one
// says its type.
func literal(number, sqlType string) string {
	if strings.HasPrefix(number, "-") {
		return "(" + number + ")::" + sqlType
	}
	return number
}

// orphanBoundMillis returns the idle_session_timeout of the lock session: four check intervals, in milliseconds, kept
// within what the setting takes (manual, "Client Connection Defaults": an integer, and 0 would switch it off).
func orphanBoundMillis(interval time.Duration) int64 {
	const intervals = 4
	if interval > math.MaxInt32*time.Millisecond/intervals {
		return math.MaxInt32
	}
	return max(1, (intervals * interval).Milliseconds())
}
