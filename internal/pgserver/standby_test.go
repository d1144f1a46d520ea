package pgserver_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

const patience = 30 * time.Second

// ask returns what the server answers to a query of one text value.
func ask(t *testing.T, server *pgserver.Server, query string) (string, error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.DSN("postgres"))
	if err != nil {
		return "", err
	}
	defer conn.Close(t.Context())
	var answer string
	err = conn.QueryRow(t.Context(), query).Scan(&answer)
	return answer, err
}

// awaitRow waits until the server has that row in the table.
func awaitRow(t *testing.T, server *pgserver.Server, word string) {
	t.Helper()
	pgtest.Eventually(t, patience, word+" has arrived", func() (bool, string) {
		found, err := ask(t, server, fmt.Sprintf("SELECT count(*)::text FROM words WHERE word = '%s'", word))
		return found == "1", fmt.Sprint(found, err)
	})
}

func mustExec(t *testing.T, server *pgserver.Server, sql string) {
	t.Helper()
	if err := server.Exec(t.Context(), "postgres", sql); err != nil {
		t.Fatal(err)
	}
}

func TestStandbyStreamsUntilItIsPromoted(t *testing.T) {
	primary := pgtest.Cluster(t, pgserver.Options{Settings: map[string]string{"max_connections": "37"}})
	mustExec(t, primary, "CREATE TABLE words (word text); INSERT INTO words VALUES ('before')")
	standby := pgtest.Standby(t, primary, pgserver.Options{Settings: map[string]string{"work_mem": "5MB"}})
	awaitRow(t, standby, "before")
	mustExec(t, primary, "INSERT INTO words VALUES ('after')")
	awaitRow(t, standby, "after")
	for setting, want := range map[string]string{"max_connections": "37", "work_mem": "5MB", "transaction_read_only": "on"} {
		if got, err := ask(t, standby, "SHOW "+setting); got != want {
			t.Errorf("%s of the standby = %s, %v; want %s", setting, got, err, want)
		}
	}

	if err := primary.Stop(pgserver.Immediate); err != nil {
		t.Fatal(err)
	}
	if err := primary.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustExec(t, primary, "INSERT INTO words VALUES ('restarted')")
	awaitRow(t, standby, "restarted")

	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustExec(t, standby, "INSERT INTO words VALUES ('promoted')")
	if found, err := ask(t, primary, "SELECT count(*)::text FROM words WHERE word = 'promoted'"); found != "0" {
		t.Errorf("the old primary has %s rows of the new one, %v", found, err)
	}
	if err := standby.Promote(t.Context()); err == nil || !strings.Contains(err.Error(), "recovery is not in progress") {
		t.Errorf("Promote of a primary = %v, want the server's error", err)
	}
}

// A backup under load has to replay what was written while it was made.
func TestStandbyOfABusyPrimaryHoldsWhatItWrote(t *testing.T) {
	primary := pgtest.Cluster(t, pgserver.Options{})
	mustExec(t, primary, "CREATE TABLE words (word text); CREATE INDEX ON words (word)")
	conn, err := pgx.Connect(t.Context(), primary.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			_, err := conn.Exec(t.Context(), fmt.Sprintf(`INSERT INTO words SELECT md5(g::text) FROM generate_series(%d, %d) AS g;
				DROP TABLE IF EXISTS passing; CREATE TABLE passing AS SELECT * FROM words LIMIT 1000`, i*1000, i*1000+999))
			if err != nil {
				stopped <- err
				return
			}
		}
	}()
	standby := pgtest.Standby(t, primary, pgserver.Options{})
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	mustExec(t, primary, "INSERT INTO words VALUES ('last')")
	awaitRow(t, standby, "last")
	const sum = "SELECT count(*) || ' rows ' || md5(string_agg(word, '' ORDER BY word)) FROM words"
	want, err := ask(t, primary, sum)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ask(t, standby, sum); got != want {
		t.Errorf("the standby has %s, %v; want %s", got, err, want)
	}
}

func TestPrimaryAndStandbyCloseInAnyOrder(t *testing.T) {
	for _, name := range []string{"primary first", "standby first"} {
		t.Run(name, func(t *testing.T) {
			primary := pgtest.Cluster(t, pgserver.Options{})
			standby := pgtest.Standby(t, primary, pgserver.Options{})
			first, second := primary, standby
			if name == "standby first" {
				first, second = standby, primary
			}
			if err := first.Close(); err != nil {
				t.Error(err)
			}
			mustExec(t, second, "SELECT 1")
			if err := second.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStandbyOfAStoppedServerIsAnErrorAndLeavesNothing(t *testing.T) {
	primary := pgtest.Cluster(t, pgserver.Options{})
	if err := primary.Stop(pgserver.Fast); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	if _, err := primary.Standby(t.Context(), pgserver.Options{}); err == nil || !strings.Contains(err.Error(), "pgserver: back up the primary: ") {
		t.Errorf("Standby of a stopped server = %v, want an error", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
