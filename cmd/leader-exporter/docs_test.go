package main

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// document reads docs/exporter.md, and its blocks in that language.
func document(t *testing.T, language string) (text string, blocks []string) {
	t.Helper()
	content, err := os.ReadFile("../../docs/exporter.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(string(content), -1) {
		if match[1] == language {
			blocks = append(blocks, match[2])
		}
	}
	return string(content), blocks
}

// The document names every command and flag, and none that is not there.
func TestDocumentNamesEveryFlag(t *testing.T) {
	help, err := exec.CommandContext(t.Context(), "leader-exporter", "--help-long").Output() // kingpin writes it to the process's own stdout
	if err != nil {
		t.Fatal(err)
	}
	text, _ := document(t, "")
	flag := regexp.MustCompile(`--(?:\[no-\])?([a-z][a-z.-]+[a-z])`)
	there := make(map[string]bool)
	for _, match := range flag.FindAllStringSubmatch(string(help), -1) {
		name := match[1]
		there[name] = true
		switch name {
		case "help", "help-long", "help-man", "completion-bash", "completion-script-bash", "completion-script-zsh", "version", "web.systemd-socket":
			continue // those of every such program
		}
		if !strings.Contains(text, "--"+name) {
			t.Errorf("docs/exporter.md does not name --%s", name)
		}
	}
	for _, match := range flag.FindAllStringSubmatch(text, -1) {
		if !there[match[1]] && match[1] != "max-time" { // curl's
			t.Errorf("docs/exporter.md names --%s, which is not there", match[1])
		}
	}
	for _, command := range regexp.MustCompile(`(?m)^([a-z]+)(?: \[<flags>\])?$`).FindAllStringSubmatch(string(help), -1) {
		if name := command[1]; !strings.Contains(text, "leader-exporter "+name) {
			t.Errorf("docs/exporter.md does not name the command %s", name)
		}
	}
}

// The role that the document makes sees all that there is to see, and the requests that it shows are answered.
func TestWhatTheDocumentShowsWorks(t *testing.T) {
	db := pgtest.Database(t)
	_, statements := document(t, "sql")
	if len(statements) != 1 {
		t.Fatalf("%d blocks of SQL, want 1", len(statements))
	}
	admin := db.Connect(t)
	role := db.Name + "_watcher"
	if _, err := admin.Exec(t.Context(), strings.ReplaceAll(statements[0], "leader_exporter", role)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = admin.Exec(context.Background(), "DROP ROLE "+role) })
	dsn := strings.Replace(db.DSN, "postgres@", url.UserPassword(role, "change me").String()+"@", 1)
	t.Setenv("LEADER_EXPORTER_DSN", dsn)
	hold(t, db.DSN)
	e := startExporter(t)
	e.awaitMetrics(t, []string{`leader_lock_held{.*} 1`, `leader_lock_holder_visible{.*} 1`, `leader_lock_holder_heartbeat_age_seconds{`})

	_, scripts := document(t, "sh")
	if len(scripts) != 1 {
		t.Fatalf("%d scripts, want 1", len(scripts))
	}
	script := strings.ReplaceAll(scripts[0], "http://127.0.0.1:18861", e.url)
	out, err := exec.CommandContext(t.Context(), "sh", "-e", "-c", script).CombinedOutput()
	for _, want := range []string{`{"locks":[{"target":"default"`, `{"terms":[`, "event: reset", "START "} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v, or no %s in\n%s", err, want, out)
		}
	}
}
