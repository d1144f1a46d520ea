package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Standby starts a second cluster that streams from this one, whose settings it takes over where opts has none of its own.
// It returns when this server streams to it. The standby connects over loopback TCP for replication, so this server's
// pg_hba.conf has to let user postgres do that. Each of the two is ended with its own Close, in any order.
func (s *Server) Standby(ctx context.Context, opts Options) (*Server, error) {
	folder, err := newFolder(s.template.as)
	if err != nil {
		return nil, fmt.Errorf("pgserver: %w", err)
	}
	standby := &Server{template: s.template, folder: folder}
	if err := standby.follow(ctx, s, opts); err != nil {
		return nil, errors.Join(err, standby.Close())
	}
	return standby, nil
}

// follow fills and starts the new cluster as a standby of the primary.
func (s *Server) follow(ctx context.Context, primary *Server, opts Options) error {
	if err := primary.backUp(ctx, s.dataFolder()); err != nil {
		return fmt.Errorf("pgserver: back up the primary: %w", err)
	}
	name := filepath.Base(s.folder)
	settings := map[string]string{
		"primary_conninfo":            fmt.Sprintf("host=127.0.0.1 port=%d user=postgres application_name=%s", primary.port, name),
		"wal_retrieve_retry_interval": "100ms", // a restarted primary is found again at once, not after 5 s
	}
	maps.Copy(settings, opts.Settings)
	opts.Standby, opts.Settings = true, settings
	if err := s.configure(opts); err != nil {
		return fmt.Errorf("pgserver: configure: %w", err)
	}
	if err := s.startFirst(ctx); err != nil {
		return err
	}
	return primary.await(ctx, "the standby streams",
		"SELECT EXISTS (SELECT FROM pg_stat_replication WHERE application_name = $1 AND state = 'streaming')", name)
}

// Promote makes a standby a primary. It returns when the server takes writes.
func (s *Server) Promote(ctx context.Context) error {
	if err := s.exec(ctx, s.socketDSN(), "SELECT pg_promote(false)"); err != nil {
		return err
	}
	return s.await(ctx, "the server is no longer in recovery", "SELECT NOT pg_is_in_recovery()")
}

// await waits until the query answers with true.
func (s *Server) await(ctx context.Context, fact, query string, args ...any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not within %v: %s", startTimeout, fact))
	defer cancel()
	conn, err := pgx.Connect(ctx, s.socketDSN())
	if err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		var holds bool
		if err := conn.QueryRow(ctx, query, args...).Scan(&holds); err != nil && ctx.Err() == nil {
			return fmt.Errorf("pgserver: %s: %w", query, err)
		}
		if holds {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("pgserver: %w\n%s", context.Cause(ctx), s.logTail())
		case <-ticker.C:
		}
	}
}

// backUp copies the data of the running server to a new folder (manual, "Making a Base Backup Using the Low Level API").
// pg_basebackup does not come with every build of the server.
func (s *Server) backUp(ctx context.Context, to string) error {
	conn, err := pgx.Connect(ctx, s.socketDSN())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) // ends a backup that did not come to its end
	start, stop := "SELECT pg_backup_start('standby', true)", "SELECT labelfile FROM pg_backup_stop(false)"
	var isOld bool
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int < 150000").Scan(&isOld); err != nil {
		return err
	}
	if isOld {
		start, stop = "SELECT pg_start_backup('standby', true, false)", "SELECT labelfile FROM pg_stop_backup(false, false)"
	}
	if _, err := conn.Exec(ctx, start); err != nil {
		return err
	}
	if err := copyData(ctx, s.dataFolder(), to, s.template.as); err != nil {
		return err
	}
	var label string
	if err := conn.QueryRow(ctx, stop).Scan(&label); err != nil {
		return err
	}
	return writeAs(s.template.as, filepath.Join(to, "backup_label"), []byte(label))
}

// copyData copies the data folder of a running server, except for what a backup leaves out (manual, "Backing Up the Data
// Directory").
func copyData(ctx context.Context, from, to string, as *syscall.Credential) error {
	emptied := []string{"pg_wal", "pg_replslot", "pg_dynshmem", "pg_notify", "pg_serial", "pg_snapshots", "pg_stat_tmp", "pg_subtrans"}
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a running server deletes files
		}
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target, name := filepath.Join(to, relative), entry.Name()
		switch {
		case entry.IsDir():
			if err := makeFolderAs(as, target); err != nil {
				return err
			}
			if slices.Contains(emptied, relative) {
				return fs.SkipDir
			}
			return nil
		case strings.HasPrefix(name, "postmaster."), strings.HasPrefix(name, "pgsql_tmp"), strings.HasPrefix(name, "pg_internal.init"):
			return nil
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a folder", path) // a tablespace
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return writeAs(as, target, content)
	})
}

// makeFolderAs makes a folder that belongs to the server's owner.
func makeFolderAs(as *syscall.Credential, path string) error {
	return errors.Join(os.Mkdir(path, 0o700), giveTo(as, path))
}

// writeAs writes a file that belongs to the server's owner.
func writeAs(as *syscall.Credential, path string, content []byte) error {
	return errors.Join(os.WriteFile(path, content, 0o600), giveTo(as, path))
}
