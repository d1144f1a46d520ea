package leadertest

// Pooler is a connection pooler between the clients and the server.
type Pooler int

// The poolers.
const (
	NoPooler          Pooler = iota
	SessionPooler            // gives each client a backend for as long as it is connected
	TransactionPooler        // runs the statements of all clients on one backend
)

// SetPooler puts a pooler in front of the server, for sessions that begin from now on. As PgBouncer does, it tells its clients
// a process id that is no backend's.
func (s *Server) SetPooler(pooler Pooler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pooler = pooler
}

// greeting returns what a new session is told.
func (s *Server) greeting(sess *session) (version string, pid uint32) {
	const invented = 1 << 30
	s.mu.Lock()
	defer s.mu.Unlock()
	pid = sess.pid
	if s.pooler != NoPooler {
		pid |= invented
	}
	return s.version, pid
}

// backendLocked returns the session on which a statement of this one runs.
func (sess *session) backendLocked() *session {
	s := sess.server
	if s.pooler != TransactionPooler {
		return sess
	}
	if s.shared == nil || s.shared.over {
		s.lastPID++
		s.shared = &session{server: s, client: &Client{server: s, name: "pooler"}, pid: s.lastPID, ended: make(chan struct{})}
		s.sessions[s.shared.pid] = s.shared
	}
	return s.shared
}
