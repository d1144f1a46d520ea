package pgbouncer

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/plexsphere/leader-exporter/internal/freeport"
)

// prepare picks a port and makes a folder with the configuration.
func (b *Bouncer) prepare(as *syscall.Credential) error {
	var err error
	if b.port, err = freeport.Take(); err != nil {
		return err
	}
	if b.folder, err = os.MkdirTemp("", "pgbouncer-"); err != nil {
		return err
	}
	if as != nil {
		if err := os.Chown(b.folder, int(as.Uid), int(as.Gid)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(b.path("users"), []byte("\"postgres\" \"\"\n"), 0o644); err != nil {
		return err
	}
	return b.configure()
}

// configure writes pgbouncer.ini.
func (b *Bouncer) configure() error {
	mode := cmp.Or(b.opts.Mode, "session")
	if !slices.Contains([]string{"session", "transaction", "statement"}, mode) {
		return fmt.Errorf("pool_mode %q is none of session, transaction and statement", mode)
	}
	settings := map[string]string{
		"listen_addr":     "127.0.0.1",
		"listen_port":     strconv.Itoa(b.port),
		"unix_socket_dir": "",
		"auth_type":       "trust",
		"auth_file":       b.path("users"),
		"admin_users":     "postgres",
		"pool_mode":       mode,
	}
	if b.opts.PoolSize != 0 {
		settings["default_pool_size"] = strconv.Itoa(b.opts.PoolSize)
	}
	maps.Copy(settings, b.opts.Settings)
	var ini strings.Builder
	fmt.Fprintf(&ini, "[databases]\n* = host=127.0.0.1 port=%d\n[pgbouncer]\n", b.opts.Server.Port())
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&ini, "%s = %s\n", name, settings[name])
	}
	return os.WriteFile(b.path("pgbouncer.ini"), []byte(ini.String()), 0o644)
}
