// Package readme runs what README.md shows.
package readme

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plexsphere/leader-exporter/internal/freeport"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

const root = "../.."

func TestMain(m *testing.M) { pgtest.Main(m) }

var fence = regexp.MustCompile("(?s)```(\\w+)\n(.*?)```")

// blocks returns the fenced blocks of the document in that language.
func blocks(t *testing.T, document, language string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); document == "README.md" && lines > 120 {
		t.Errorf("README.md has %d lines, want at most 120", lines)
	}
	var found []string
	for _, match := range fence.FindAllStringSubmatch(string(text), -1) {
		if match[1] == language {
			found = append(found, match[2])
		}
	}
	return found
}

// shell runs a script in the root of the repository.
func shell(t *testing.T, script string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}

// The two commands: the demo is run for a moment, the tests are what runs this.
func TestTheTwoCommands(t *testing.T) {
	block := blocks(t, "README.md", "sh")[0]
	var commands []string
	for line := range strings.Lines(block) {
		command, _, _ := strings.Cut(line, "#")
		commands = append(commands, strings.TrimSpace(command))
	}
	if len(commands) != 2 || commands[0] != "make demo" || commands[1] != "make test" {
		t.Fatalf("the first block shows %q, want the two commands", commands)
	}
	out := shell(t, commands[0], "DEMO_FLAGS=--duration=2s --check-interval=500ms")
	if !strings.Contains(out, "at the end plexsphere-") {
		t.Errorf("make demo:\n%s", out)
	}
	shell(t, "make --dry-run test")
}

// The exporter's block, against a database of this test instead of db.example, on a port that is free.
func TestTheExportersCommands(t *testing.T) {
	block := blocks(t, "README.md", "sh")[1]
	block = strings.ReplaceAll(block, "postgres://monitor@db.example:5432/plexsphere", pgtest.Database(t).DSN)
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	block = strings.ReplaceAll(block, "127.0.0.1:18861", address)
	out := shell(t, block)
	for _, want := range []string{"unheld", `leader_lock_up{target="default"}`} {
		if !strings.Contains(out, want) {
			t.Errorf("the exporter's commands do not show %s:\n%s", want, out)
		}
	}
}

// The rules' block, with a file of this test.
func TestTheRulesCommands(t *testing.T) {
	block := blocks(t, "README.md", "sh")[2]
	block = strings.ReplaceAll(block, "background-leader.rules.yaml", filepath.Join(t.TempDir(), "rules.yaml"))
	if out := shell(t, "make build\n"+block); !strings.Contains(out, "SUCCESS: 14 rules found") {
		t.Errorf("promtool says:\n%s", out)
	}
}

// The Go shown is a part of the examples, as it stands there, and so it is compiled.
func TestTheGoLinesAreTheExamples(t *testing.T) {
	for document, source := range map[string]string{
		"README.md":     "leader/example_test.go",
		"docs/loops.md": "loop/example_test.go",
	} {
		example, err := os.ReadFile(filepath.Join(root, source))
		if err != nil {
			t.Fatal(err)
		}
		shown := blocks(t, document, "go")
		if len(shown) == 0 {
			t.Fatalf("%s shows no Go", document)
		}
		for _, block := range shown {
			if !strings.Contains(unindented(string(example)), unindented(block)) {
				t.Errorf("%s: not in %s as it stands:\n%s", document, source, block)
			}
		}
	}
}

// unindented returns the text without the white space around its lines.
func unindented(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		lines.WriteString(strings.TrimSpace(line) + "\n")
	}
	return lines.String()
}

// The scrape configuration is that of the quick start, which promtool checks where it stands.
func TestTheScrapeConfig(t *testing.T) {
	quickStart, err := os.ReadFile(filepath.Join(root, "deploy", "prometheus", "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if block := blocks(t, "README.md", "yaml")[0]; !strings.HasSuffix(string(quickStart), block) {
		t.Errorf("not the end of the quick start:\n%s", block)
	}
}

// Every relative link of the documents leads to a file.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	documents := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			relative, relErr := filepath.Rel(root, path)
			documents = append(documents, relative)
			return relErr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range documents {
		text, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, match := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(document), match[1])); err != nil {
				t.Errorf("%s links to %s: %v", document, match[1], err)
			}
		}
	}
}
