package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// machine tells when, where, and of which versions the figures are.
func (b *bench) machine(ctx context.Context) (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", err
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return "", err
	}
	server, err := b.server(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = server.Close() }()
	conn, err := connect(ctx, server, "bench")
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	var postgres string
	if err := conn.QueryRow(ctx, "SHOW server_version").Scan(&postgres); err != nil {
		return "", err
	}
	commit, err := exec.CommandContext(ctx, "git", "-C", b.root, "describe", "--always", "--dirty").Output()
	if err != nil {
		return "", fmt.Errorf("git describe: %w", err)
	}
	return fmt.Sprintf("%s, at %s. Machine: %d CPUs (%s), %d MiB, Linux %s. Versions: %s, PostgreSQL %s, prometheus-sql-exporter %s, prometheus-postgres-exporter %s, client-go %s.\n\n",
		time.Now().UTC().Format(time.DateOnly), strings.TrimSpace(string(commit)), runtime.NumCPU(), cpuModel(), info.Totalram*uint64(info.Unit)>>20,
		unix.ByteSliceToString(name.Release[:]), runtime.Version(), postgres, packageVersion(ctx, "prometheus-sql-exporter"),
		packageVersion(ctx, "prometheus-postgres-exporter"), moduleVersion("k8s.io/client-go")), nil
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// packageVersion asks Debian.
func packageVersion(ctx context.Context, name string) string {
	out, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f", "${Version}", name).Output()
	if err != nil {
		return "of unknown version"
	}
	return string(out)
}

func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == path {
				return module.Version
			}
		}
	}
	return "of unknown version" // a test's binary has no modules
}
