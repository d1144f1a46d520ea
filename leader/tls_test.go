package leader_test

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/internal/selfsigned"
)

// R20: over TLS too, a wait that ends with the next check leaves the connection whole, and a session that the server ends is
// noticed between two checks.
func TestPostgresPassiveWaitOverTLS(t *testing.T) {
	t.Parallel()
	cert, key, err := selfsigned.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	server := pgtest.Cluster(t, pgserver.Options{
		Settings: map[string]string{"ssl": "on", "ssl_cert_file": "server.crt", "ssl_key_file": "server.key"},
		Files:    map[string]string{"server.crt": string(cert), "server.key": string(key)},
	})
	db := &pgtest.DB{DSN: server.DSN("postgres")}
	admin := db.Connect(t)
	pool := db.Pool(t, func(c *pgxpool.Config) {
		c.ConnConfig.TLSConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the certificate names nobody
	})
	r := newReplica(t, pool, quick).run(t)
	awaitLeader(t, r)
	pid := awaitHolder(t, admin)
	var checked time.Time
	for range 10 {
		last := checked
		pgtest.Eventually(t, patience, "one more check", func() (bool, string) {
			err := admin.QueryRow(t.Context(), "SELECT query_start FROM pg_stat_activity WHERE pid = $1 AND query = 'SELECT 1'", int32(pid)).Scan(&checked)
			return err == nil && checked.After(last), ""
		})
	}
	var encrypted bool
	if err := admin.QueryRow(t.Context(), "SELECT ssl FROM pg_stat_ssl WHERE pid = $1", int32(pid)).Scan(&encrypted); err != nil || !encrypted {
		t.Fatalf("TLS on the lock connection: %v, %v", encrypted, err)
	}
	if got := r.logs.With(""); len(got) != 1 {
		t.Errorf("log: %q, want the one term", got)
	}
	terminate(t, admin, pid)
	pgtest.Eventually(t, patience, "the loss with the server's reason", func() (bool, string) {
		lost := r.logs.With("WARN background leader lock lost")
		return len(lost) == 1 && strings.Contains(lost[0], "57P01"), strings.Join(r.logs.With(""), "\n")
	})
}
