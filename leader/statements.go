package leader

import (
	"fmt"

	"github.com/plexsphere/leader-exporter/lockkey"
)

// The outcomes of the lock statement.
const (
	outcomeGranted  = "granted"
	outcomeRefused  = "refused"
	outcomeRecovery = "recovery"
	outcomeGhost    = "ghost"
	outcomeUnheld   = "unheld"
)

// statements is what an Elector sends. They go out over the simple query protocol, so a pooler needs to know of no
// prepared statement, and with their numbers written in: pgx takes parameters in that protocol only where client_encoding
// is UTF8, and a SQL_ASCII or LATIN1 database must elect a leader too.
type statements struct {
	tryLock, ping, unlock string
}

// ownLockRow selects the row of pg_locks by which this session holds the lock.
const ownLockRow = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()` +
	` AND classid = %[2]d AND objid = %[3]d AND objsubid = %[4]d` +
	` AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// tryLock asks for the lock and answers with one outcome. PostgreSQL evaluates the branches of a CASE in order and no
// further than it must (manual, "Expression Evaluation Rules").
//
// The lock functions count: a session that already holds the lock is granted it again, and pg_locks does not show how
// often. So one grant is given back, and what is then left belongs to somebody else's use of this connection. pg_locks is
// read only when the lock was granted, because a read of it stalls other sessions' lock calls. The bound on an orphan is
// set in the same statement, so that nothing can come between the lock and its bound.
const tryLock = `SELECT CASE` +
	` WHEN pg_is_in_recovery() THEN '` + outcomeRecovery + `'` +
	` WHEN NOT pg_try_advisory_lock(%[1]s) THEN '` + outcomeRefused + `'` +
	` WHEN NOT pg_advisory_unlock(%[1]s) THEN '` + outcomeUnheld + `'` +
	` WHEN EXISTS (` + ownLockRow + `) THEN '` + outcomeGhost + `'` +
	` WHEN NOT pg_try_advisory_lock(%[1]s) THEN '` + outcomeRefused + `'` +
	` WHEN NOT EXISTS (` + ownLockRow + `) THEN '` + outcomeUnheld + `'` +
	` WHEN set_config('idle_session_timeout', '%[5]d', false) IS NULL THEN NULL` +
	` ELSE '` + outcomeGranted + `' END`

// newStatements writes the election's key and the bound on an orphaned session, in milliseconds, into the statements.
func newStatements(orphanBoundMillis int64) statements {
	classid, objid, objsubid := lockkey.BackgroundLeader().Columns()
	arguments := fmt.Sprintf("%d, %d", int32(classid), int32(objid))
	return statements{
		tryLock: fmt.Sprintf(tryLock, arguments, classid, objid, objsubid, orphanBoundMillis),
		ping:    `SELECT 1`,
		unlock:  fmt.Sprintf(`SELECT pg_advisory_unlock(%s)`, arguments),
	}
}
