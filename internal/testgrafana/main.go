// Command testgrafana looks at the panels of the project's dashboards on a real Grafana server.
//
// The environment names the server: GRAFANA_URL, GRAFANA_USER (admin) and GRAFANA_PASSWORD; and, as that server reaches them, LEADER_EXPORTER_URL
// and PROMETHEUS_URL. The plugin must be installed there. Without GRAFANA_URL nothing is run, which is said, and is no failure.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Getenv, ".", os.Stdout)
	stop()
	os.Exit(code)
}

// board is a dashboard, and the data source that it is shown with.
type board struct {
	file, source string
}

// run returns the exit code. root is the folder of the repository.
func run(ctx context.Context, env func(string) string, root string, out io.Writer) int {
	if env("GRAFANA_URL") == "" {
		fmt.Fprintln(out, "test-grafana: not run: GRAFANA_URL names no Grafana server. No server has loaded the plugin, and none has rendered a dashboard.")
		return 0
	}
	if err := check(ctx, env, root, out); err != nil {
		fmt.Fprintf(out, "test-grafana: FAILED:\n%v\n", err)
		return 1
	}
	return 0
}

// check makes data sources and dashboards of its own on the server, looks at each panel, and removes what it has made. It reports all
// panels that are wrong.
func check(ctx context.Context, env func(string) string, root string, out io.Writer) (err error) {
	for _, name := range []string{"GRAFANA_PASSWORD", "LEADER_EXPORTER_URL", "PROMETHEUS_URL"} {
		if env(name) == "" {
			err = errors.Join(err, fmt.Errorf("%s is not set", name))
		}
	}
	if err != nil {
		return err
	}
	server, err := newGrafana(env("GRAFANA_URL"), cmp.Or(env("GRAFANA_USER"), "admin"), env("GRAFANA_PASSWORD"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.clean(context.WithoutCancel(ctx))) }()
	if err := server.hasPlugin(ctx); err != nil {
		return err
	}
	sources := map[string]string{pluginID: env("LEADER_EXPORTER_URL"), "prometheus": env("PROMETHEUS_URL")}
	for kind, address := range sources {
		if err := server.addSource(ctx, kind, address); err != nil {
			return err
		}
	}
	var pages []panelPage
	for _, b := range []board{
		{"dashboards/fleet.json", "prometheus"},
		{"dashboards/deployment.json", "prometheus"},
		{"grafana-plugin/dist/dashboards/leaders.json", pluginID},
	} {
		found, err := server.addBoard(ctx, filepath.Join(root, b.file), b.source)
		if err != nil {
			return err
		}
		pages = append(pages, found...)
	}
	return look(ctx, server, pages, env("LEADER_EXPORTER_ARTEFACTS"), out)
}
