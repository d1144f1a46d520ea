package leadertest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/lockkey"
)

// Server is a scripted PostgreSQL. Make it with NewServer.
type Server struct {
	mu         sync.Mutex // guards everything below
	version    string
	recovery   bool
	hollow     bool
	pooler     Pooler
	shared     *session // the one backend of a pooler in transaction mode
	stopped    bool
	lastPID    uint32
	lastXID    uint64
	sessions   map[uint32]*session
	locks      map[lockkey.Key]*lock
	answers    map[string]string
	statements []Statement
	unrecorded bool
	observe    func(LockChange)
	cancels    int

	serving sync.WaitGroup // one for each goroutine of a session
}

// Statement is one statement that the server received.
type Statement struct {
	At     time.Time
	Client string // the name given to Server.Client
	PID    uint32
	SQL    string
}

// NewServer returns a running server of version 15 that ends with the test.
func NewServer(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{
		version:  "15.18",
		sessions: make(map[uint32]*session),
		locks:    make(map[lockkey.Key]*lock),
		answers:  make(map[string]string),
	}
	tb.Cleanup(func() {
		s.Stop()
		s.serving.Wait()
	})
	return s
}

// Client returns a host that reaches the server over a network of its own.
func (s *Server) Client(name string) *Client {
	return &Client{server: s, name: name, network: newLink()}
}

// SetVersion sets what new sessions are told as server_version.
func (s *Server) SetVersion(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
}

// SetRecovery makes the server a hot standby (true) or a primary (false).
func (s *Server) SetRecovery(recovery bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recovery = recovery
}

// SetHollow makes the lock functions answer true without locking anything, as some databases that speak PostgreSQL's
// protocol do.
func (s *Server) SetHollow(hollow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hollow = hollow
}

// Script makes the server answer the statement with one row of one text value.
func (s *Server) Script(statement, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[statement] = value
}

// Terminate ends the session of that backend as pg_terminate_backend does. It reports whether there was one.
func (s *Server) Terminate(pid uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	victim, ok := s.sessions[pid]
	if ok {
		victim.endLocked(fatal("57P01", "terminating connection due to administrator command"))
	}
	return ok
}

// TerminateClient ends all sessions of the client with that name, and returns how many there were.
func (s *Server) TerminateClient(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, victim := range s.sessions {
		if victim.client.name == name {
			victim.endLocked(fatal("57P01", "terminating connection due to administrator command"))
			n++
		}
	}
	return n
}

// Stop ends all sessions and refuses new ones, as a fast shutdown does, until Start.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, victim := range s.sessions {
		victim.endLocked(fatal("57P01", "terminating connection due to administrator command"))
	}
}

// Start lets a stopped server accept sessions again.
func (s *Server) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = false
}

// Sessions returns the number of sessions that the server has open.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// SetRecording says whether the server keeps the statements that it receives for Statements. It does from the beginning on;
// a test of thousands of hours has no room for them.
func (s *Server) SetRecording(record bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unrecorded = !record
}

// Statements returns a copy of all that the server received, oldest first.
func (s *Server) Statements() []Statement {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.statements)
}

// CancelRequests returns how many requests to cancel a statement arrived.
func (s *Server) CancelRequests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cancels
}
