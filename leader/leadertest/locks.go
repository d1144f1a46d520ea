package leadertest

import (
	"time"

	"github.com/plexsphere/leader-exporter/lockkey"
)

// lock is an advisory lock that a session holds, count times.
type lock struct {
	holder *session
	count  int
}

// LockChange is one grant or release of an advisory lock.
type LockChange struct {
	At      time.Time
	Key     lockkey.Key
	Client  string // the name given to Server.Client
	PID     uint32
	Granted bool // else released
}

// Observe makes the server call see at each change of a lock from now on, in the order in which they happen. see must not
// call the server.
func (s *Server) Observe(see func(LockChange)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observe = see
}

// Holder returns the client and the backend that hold the lock, by the server's own books.
func (s *Server) Holder(key lockkey.Key) (client string, pid uint32, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.locks[key]
	if !ok {
		return "", 0, false
	}
	return l.holder.client.name, l.holder.pid, true
}

// tryLockLocked is pg_try_advisory_lock.
func (sess *session) tryLockLocked(key lockkey.Key) bool {
	l, taken := sess.server.locks[key]
	switch {
	case sess.server.hollow:
		return true
	case !taken:
		sess.server.locks[key] = &lock{holder: sess, count: 1}
		sess.reportLocked(key, true)
		return true
	case l.holder == sess:
		l.count++
		return true
	default:
		return false
	}
}

// unlockLocked is pg_advisory_unlock.
func (sess *session) unlockLocked(key lockkey.Key) bool {
	if sess.server.hollow {
		return true
	}
	if !sess.holdsLocked(key) {
		return false
	}
	l := sess.server.locks[key]
	if l.count--; l.count == 0 {
		delete(sess.server.locks, key)
		sess.reportLocked(key, false)
	}
	return true
}

// holdsLocked reports whether pg_locks shows the lock for this session.
func (sess *session) holdsLocked(key lockkey.Key) bool {
	l, taken := sess.server.locks[key]
	return taken && l.holder == sess
}

// couldLockLocked is pg_try_advisory_xact_lock in a transaction that ends at once.
func (sess *session) couldLockLocked(key lockkey.Key) bool {
	_, taken := sess.server.locks[key]
	return !taken || sess.holdsLocked(key)
}

// releaseAllLocked is what the end of a session does to its locks.
func (sess *session) releaseAllLocked() {
	for key, l := range sess.server.locks {
		if l.holder == sess {
			delete(sess.server.locks, key)
			sess.reportLocked(key, false)
		}
	}
}

func (sess *session) reportLocked(key lockkey.Key, granted bool) {
	if see := sess.server.observe; see != nil {
		see(LockChange{At: time.Now(), Key: key, Client: sess.client.name, PID: sess.pid, Granted: granted})
	}
}
