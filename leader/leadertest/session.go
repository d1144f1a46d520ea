package leadertest

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// session is one backend. A reader goroutine receives statements and a writer goroutine sends the replies, so that a
// reply which is held back does not keep the server from seeing what comes next.
type session struct {
	server *Server
	client *Client
	pid    uint32
	conn   net.Conn

	replies chan reply
	ended   chan struct{} // closed by endLocked
	goodbye []byte        // written before ended is closed, read after

	// Guarded by Server.mu.
	over        bool
	channels    []string // that it listens on
	token       string   // the elector's, behind a pooler
	idleTimeout time.Duration
	idle        *time.Timer
}

// reply is what goes back to the client, and when.
type reply struct {
	wire []byte
	due  time.Time
}

// accept opens a session for the client, unless the server is stopped.
func (s *Server) accept(c *Client) (net.Conn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, false
	}
	clientEnd, serverEnd := net.Pipe()
	s.lastPID++
	sess := &session{
		server:  s,
		client:  c,
		pid:     s.lastPID,
		conn:    serverEnd,
		replies: make(chan reply, 16),
		ended:   make(chan struct{}),
	}
	s.sessions[sess.pid] = sess
	s.serving.Go(sess.read)
	s.serving.Go(sess.write)
	return clientEnd, true
}

// read receives until the client goes or the session ends. While the network is cut it learns nothing, not even that the
// client has closed its end.
func (sess *session) read() {
	backend := pgproto3.NewBackend(sess.conn, nil)
	proceed := sess.startUp(backend)
	for proceed {
		message, err := backend.Receive()
		if !sess.client.network.wait(sess.ended) {
			break
		}
		if err != nil {
			sess.end()
			return
		}
		proceed = sess.handle(message)
	}
	// Take in what the client still sends, or it could not read the goodbye.
	_, _ = io.Copy(io.Discard, sess.conn)
}

// write sends replies in order, and at the end the goodbye. A client that reads nothing keeps it waiting, as its socket
// buffer would keep the bytes.
func (sess *session) write() {
	defer sess.conn.Close()
	for {
		select {
		case r := <-sess.replies:
			if sess.sleepUntil(r.due) && sess.client.network.wait(sess.ended) {
				_, _ = sess.conn.Write(r.wire)
			}
		case <-sess.ended:
			sess.client.network.wait(nil)
			_, _ = sess.conn.Write(sess.goodbye)
			return
		}
	}
}

// sleepUntil waits for the moment, or reports false when the session ends before it. A reply without delay starts no timer:
// Go 1.26.8's race detector was seen to crash when goroutines of one bubble met timers that had already run out.
func (sess *session) sleepUntil(due time.Time) bool {
	if !due.After(time.Now()) {
		return true
	}
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-sess.ended:
		return false
	}
}

// startUp does the first exchange of a connection and reports whether statements may follow.
func (sess *session) startUp(backend *pgproto3.Backend) bool {
	message, err := backend.ReceiveStartupMessage()
	if err != nil {
		sess.end()
		return false
	}
	if _, isCancel := message.(*pgproto3.CancelRequest); isCancel {
		sess.server.mu.Lock()
		sess.server.cancels++
		sess.server.mu.Unlock()
		sess.end()
		return false
	}
	version, pid := sess.server.greeting(sess)
	sess.reply(
		&pgproto3.AuthenticationOk{},
		&pgproto3.ParameterStatus{Name: "server_version", Value: version},
		&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"},
		&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"},
		&pgproto3.BackendKeyData{ProcessID: pid, SecretKey: []byte{0, 0, 0, 1}},
		ready(),
	)
	return true
}

// handle answers one message and reports whether more may follow.
func (sess *session) handle(message pgproto3.FrontendMessage) bool {
	switch m := message.(type) {
	case *pgproto3.Query:
		result, alive := sess.execute(m.String)
		if !alive {
			return false
		}
		sess.reply(append(result, ready())...)
	case *pgproto3.Terminate:
		sess.end()
		return false
	case *pgproto3.Sync:
		sess.reply(ready())
	case *pgproto3.Parse:
		sess.reply(failure("0A000", "leadertest: only the simple query protocol is scripted, not the extended one: "+m.Query))
	}
	return true
}

// reply queues messages for the client.
func (sess *session) reply(messages ...pgproto3.BackendMessage) {
	r := reply{wire: encode(messages...), due: time.Now().Add(sess.client.network.currentDelay())}
	select {
	case sess.replies <- r:
	case <-sess.ended:
	}
}

// end closes the session because the client is gone.
func (sess *session) end() {
	sess.server.mu.Lock()
	defer sess.server.mu.Unlock()
	sess.endLocked(nil)
}

// endLocked closes the session and frees its locks. goodbye is what the client still gets to read.
func (sess *session) endLocked(goodbye []byte) {
	if sess.over {
		return
	}
	sess.over = true
	if sess.idle != nil {
		sess.idle.Stop()
	}
	delete(sess.server.sessions, sess.pid)
	sess.releaseAllLocked()
	sess.goodbye = goodbye
	close(sess.ended)
}

// goIdleLocked starts to count the idle time that idle_session_timeout bounds.
func (sess *session) goIdleLocked() {
	if sess.idle != nil {
		sess.idle.Stop()
	}
	if sess.idleTimeout <= 0 || sess.over {
		return
	}
	sess.idle = time.AfterFunc(sess.idleTimeout, func() {
		sess.server.mu.Lock()
		defer sess.server.mu.Unlock()
		sess.endLocked(fatal("57P05", "terminating connection due to idle-session timeout"))
	})
}

func ready() pgproto3.BackendMessage { return &pgproto3.ReadyForQuery{TxStatus: 'I'} }

func failure(code, text string) *pgproto3.ErrorResponse {
	return &pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code, Message: text}
}

// fatal returns the wire form of the message with which a backend goes.
func fatal(code, text string) []byte {
	return encode(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code, Message: text})
}

// encode returns the wire form of messages.
func encode(messages ...pgproto3.BackendMessage) []byte {
	var wire []byte
	for _, m := range messages {
		longer, err := m.Encode(wire)
		if err != nil {
			panic(fmt.Sprintf("leadertest: encode %T: %v", m, err)) // a bug of this package
		}
		wire = longer
	}
	return wire
}
