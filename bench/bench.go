package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
)

// bench is one run.
type bench struct {
	extent   extent
	progress io.Writer
	folder   string // for what the parts write
	exporter string // the program
	root     string // of the repository
	template *pgserver.Template
	rows     []row
}

// run measures the parts and returns the table.
func (b *bench) run(ctx context.Context, wanted []part) (table string, err error) {
	if b.folder, err = os.MkdirTemp("", "bench"); err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(b.folder) }()
	if b.root, err = repository(ctx); err != nil {
		return "", err
	}
	b.say("building the exporter")
	b.exporter = filepath.Join(b.folder, "leader-exporter")
	build := exec.CommandContext(ctx, "go", "-C", b.root, "build", "-trimpath", "-o", b.exporter, "./cmd/leader-exporter")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	if b.template, err = pgserver.NewTemplate(ctx); err != nil {
		return "", err
	}
	defer func() { _ = b.template.Remove() }()
	about, err := b.machine(ctx)
	if err != nil {
		return "", err
	}
	for _, p := range wanted {
		begin := time.Now()
		b.say("measuring %s", p.name)
		if err := p.measure(ctx, b); err != nil {
			return "", fmt.Errorf("%s: %w", p.name, err)
		}
		b.say("measured %s in %v", p.name, time.Since(begin).Round(time.Second))
	}
	return about + markdown(b.rows), nil
}

// repository returns the root of the module that is measured.
func repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/plexsphere/leader-exporter").Output()
	if err != nil {
		return "", fmt.Errorf("run it in the folder bench of the repository: go list: %w", err)
	}
	return string(bytes.TrimSpace(out)), nil
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "bench: "+format+"\n", args...)
}

// add enters a row, which must have samples.
func (b *bench) add(r row) error {
	if len(r.ours) == 0 || r.alternative != "" && len(r.theirs) == 0 {
		return fmt.Errorf("%s beside %q: nothing was measured", r.what, r.alternative)
	}
	b.rows = append(b.rows, r)
	b.say("  %s", r.line())
	return nil
}

// server starts a cluster with room for the locks and sessions of the largest part.
func (b *bench) server(ctx context.Context) (*pgserver.Server, error) {
	return pgserver.Start(ctx, b.template, pgserver.Options{Settings: map[string]string{
		"max_connections": "700", "max_locks_per_transaction": "200", "autovacuum": "off", "shared_buffers": "64MB",
	}})
}

// connect returns a connection under a name, which the caller closes.
func connect(ctx context.Context, server *pgserver.Server, name string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(server.DSN("postgres"))
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["application_name"] = name
	return pgx.ConnectConfig(ctx, config)
}

// pause waits, or less if ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// eventually waits for a fact.
func eventually(ctx context.Context, fact string, is func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("waited a minute until %s", fact))
	defer cancel()
	for !is() {
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
