package lockwatch

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
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

// serverSQL tells which server the connection is to. Anybody may call both functions, in PostgreSQL 14 to 18, unless that was revoked.
const (
	serverSQL        = `SELECT pg_postmaster_start_time(), (SELECT system_identifier FROM pg_control_system())`
	startOfServerSQL = `SELECT pg_postmaster_start_time(), 0::bigint`
)

// connect opens the one connection, sets the session up, and asks which server it is to.
func (w *Watcher) connect(ctx context.Context) (*pgx.Conn, Server, error) {
	config, err := w.cfg.ConnConfig()
	if err != nil {
		return nil, Server{}, &connectError{err}
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = applicationName
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, Server{}, &connectError{err}
	}
	server, err := w.setUp(ctx, conn)
	if err != nil {
		closeNow(conn)
		return nil, Server{}, err
	}
	return conn, server, nil
}

// setUp makes a session of a connection that is new.
func (w *Watcher) setUp(ctx context.Context, conn *pgx.Conn) (Server, error) {
	version := conn.PgConn().ParameterStatus("server_version")
	var major int
	if _, err := fmt.Sscanf(version, "%d", &major); err == nil && major < oldestServer {
		return Server{}, fmt.Errorf("the server is PostgreSQL %s, %d or newer is needed", version, oldestServer)
	}
	if _, err := conn.Exec(ctx, sessionSQL, fmt.Sprint(w.cfg.PollTimeout.Milliseconds())); err != nil {
		return Server{}, err
	}
	var server Server
	err := conn.QueryRow(ctx, serverSQL).Scan(&server.Started, &server.SystemIdentifier)
	if err != nil && reasonOf(err) == ReasonPermission {
		err = conn.QueryRow(ctx, startOfServerSQL).Scan(&server.Started, &server.SystemIdentifier)
	}
	return server, err
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
