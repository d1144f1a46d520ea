package leader

import (
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"
)

// oldestServer is the first major version of PostgreSQL that has idle_session_timeout.
const oldestServer = 14

// requireVersion refuses a server without idle_session_timeout, before anything is locked there. A server that does not
// tell its version is left to refuse the setting itself.
func requireVersion(conn *pgxpool.Conn) error {
	version := conn.Conn().PgConn().ParameterStatus("server_version")
	if major, ok := majorVersion(version); ok && major < oldestServer {
		return fmt.Errorf("the server is PostgreSQL %s: idle_session_timeout, which bounds an orphaned lock, needs PostgreSQL %d or newer",
			version, oldestServer)
	}
	return nil
}

// majorVersion reads the number that server_version begins with: 15 of "15.18 (Debian 15.18-0+deb12u1)", 19 of "19devel".
func majorVersion(version string) (int, bool) {
	digits := 0
	for digits < len(version) && '0' <= version[digits] && version[digits] <= '9' {
		digits++
	}
	major, err := strconv.Atoi(version[:digits])
	return major, err == nil
}
