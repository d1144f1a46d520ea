package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/internal/child"
	"github.com/plexsphere/leader-exporter/internal/freeport"
	"github.com/plexsphere/leader-exporter/internal/pgserver"
)

const (
	ours          = "leader-exporter"
	sqlRival      = "sql_exporter"
	postgresRival = "postgres_exporter"
)

// rivalQuery asks for the leader's lock as one writes it for an exporter that runs any query.
const rivalQuery = `SELECT d.datname::text, l.pid::text, coalesce(a.application_name, '')::text AS application_name,
	coalesce(host(a.client_addr), '')::text AS client_addr, count(*)::float AS holders
FROM pg_locks l JOIN pg_database d ON d.oid = l.database LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.classid = 1886156915 AND l.objid = 1 AND l.objsubid = 2 AND l.granted AND l.mode = 'ExclusiveLock'
GROUP BY 1, 2, 3, 4`

// sampleOf is what the page of each exporter has once it knows the leader.
func sampleOf(name string) string {
	switch name {
	case ours:
		return `application_name="leader"`
	case sqlRival:
		return "\nsql_leader{"
	}
	return "\nleader_holders{"
}

// station is an exporter on a server of its own, with a leader and many other locks.
type station struct {
	name   string
	server *pgserver.Server
	admin  *pgx.Conn // its own statements are few, and none while something is counted
	leader *pgx.Conn
	// postmaster is the server's first process.
	postmaster int
	exporter   *child.Child // nil beside which nothing runs
	url        string
}

// newStation starts a server with so many locks, and the exporter unless the name is empty.
func (b *bench) newStation(ctx context.Context, name string, locks int) (s *station, err error) {
	s = &station{name: name}
	defer func() {
		if err != nil {
			s.close(ctx)
		}
	}()
	if s.server, err = b.server(ctx); err != nil {
		return s, err
	}
	if s.admin, err = connect(ctx, s.server, "bench"); err != nil {
		return s, err
	}
	if s.postmaster, err = parentOf(int(s.admin.PgConn().PID())); err != nil {
		return s, err
	}
	if s.leader, err = connect(ctx, s.server, "leader"); err != nil {
		return s, err
	}
	if _, err = s.leader.Exec(ctx, "SELECT pg_advisory_lock(1886156915, 1), count(pg_advisory_lock(7, n)) FROM generate_series(1, $1::int) AS n", locks); err != nil {
		return s, err
	}
	switch name {
	case "":
		return s, nil
	case floorName:
		return s, startFloor(ctx, s)
	}
	return s, b.startExporter(ctx, s)
}

func (s *station) close(ctx context.Context) {
	if s.exporter != nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		_ = s.exporter.Stop(ctx, syscall.SIGTERM)
		cancel()
	}
	for _, conn := range []*pgx.Conn{s.admin, s.leader} {
		if conn != nil {
			_ = conn.Close(ctx)
		}
	}
	if s.server != nil {
		_ = s.server.Close()
	}
}

// startExporter starts the station's exporter with its defaults, and waits until its page has the leader.
func (b *bench) startExporter(ctx context.Context, s *station) error {
	return s.start(ctx, func(address string) (*exec.Cmd, error) { return b.exporterCommand(s, address) }, func(page string) bool {
		return strings.Contains(page, sampleOf(s.name))
	})
}

// start starts an exporter at the station, which listens at the address that command is given, and waits until its page is complete.
func (s *station) start(ctx context.Context, command func(address string) (*exec.Cmd, error), complete func(page string) bool) error {
	address, err := freeport.Address()
	if err != nil {
		return err
	}
	s.url = "http://" + address + "/metrics"
	cmd, err := command(address)
	if err != nil {
		return err
	}
	if s.exporter, err = child.Start(cmd, syscall.SIGKILL); err != nil {
		return fmt.Errorf("%w: make setup installs it", err)
	}
	client := newScraper()
	var last error
	err = eventually(ctx, cmd.Path+" tells who leads", func() bool {
		var page string
		_, page, last = client.scrape(ctx, s.url)
		return last == nil && complete(page)
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

func (b *bench) exporterCommand(s *station, address string) (*exec.Cmd, error) {
	dsn := s.server.DSN("postgres")
	switch s.name {
	case ours:
		cmd := exec.Command(b.exporter, "--web.listen-address="+address)
		cmd.Env = append(os.Environ(), "LEADER_EXPORTER_DSN="+dsn)
		return cmd, nil
	case sqlRival:
		file := filepath.Join(b.folder, "sql_exporter.yml")
		text := fmt.Sprintf("jobs:\n- name: leader\n  interval: 15s\n  connections: ['%s']\n  queries:\n  - name: leader\n    help: Who leads.\n"+
			"    labels: [datname, pid, application_name, client_addr]\n    values: [holders]\n    query: |\n%s", dsn, indented(rivalQuery))
		return exec.Command("prometheus-sql-exporter", "-config.file", file, "-web.listen-address", address), os.WriteFile(file, []byte(text), 0o600)
	}
	file := filepath.Join(b.folder, "postgres_exporter.yml")
	text := "leader:\n  query: |\n" + indented(rivalQuery) + "\n  metrics:\n"
	for _, label := range []string{"datname", "pid", "application_name", "client_addr"} {
		text += "  - " + label + ": {usage: LABEL, description: Of the leader.}\n"
	}
	text += "  - holders: {usage: GAUGE, description: Who leads.}\n"
	cmd := exec.Command("prometheus-postgres-exporter", "--disable-default-metrics", "--disable-settings-metrics", "--no-collector.database",
		"--no-collector.bgwriter", "--extend.query-path="+file, "--web.listen-address="+address)
	cmd.Env = append(os.Environ(), "DATA_SOURCE_NAME="+dsn)
	return cmd, os.WriteFile(file, []byte(text), 0o600)
}

func indented(text string) string {
	return "      " + strings.ReplaceAll(text, "\n", "\n      ")
}
