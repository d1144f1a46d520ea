package alerts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const shipped = "background-leader.rules.yaml"

// twoAtOnce leaves the other tests of the machine a share of it.
var twoAtOnce = make(chan struct{}, 2) //nolint:gochecknoglobals // shared by all tests that start promtool

// promtool runs it and returns what it printed. Without it the test fails: the rules are what only promtool can prove.
func promtool(tb testing.TB, args ...string) (string, error) {
	tb.Helper()
	return command(tb, "promtool", args...)
}

func command(tb testing.TB, name string, args ...string) (string, error) {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		tb.Fatalf("%v; to install it: make setup", err)
	}
	twoAtOnce <- struct{}{}
	defer func() { <-twoAtOnce }()
	out, err := exec.CommandContext(tb.Context(), path, args...).CombinedOutput()
	return string(out), err
}

// shippedRule is what the tests read of a rule.
type shippedRule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Keep        string            `yaml:"keep_firing_for,omitempty"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

type shippedFile struct {
	Groups []shippedGroup `yaml:"groups"`
}

type shippedGroup struct {
	Name  string        `yaml:"name"`
	Rules []shippedRule `yaml:"rules"`
}

func shippedRules(tb testing.TB) []shippedRule {
	tb.Helper()
	content, err := os.ReadFile(shipped)
	if err != nil {
		tb.Fatal(err)
	}
	return parseRules(tb, content)
}

func parseRules(tb testing.TB, content []byte) []shippedRule {
	tb.Helper()
	var file shippedFile
	if err := yaml.Unmarshal(content, &file); err != nil {
		tb.Fatal(err)
	}
	return file.Groups[0].Rules
}

// testFiles are the files of promtool tests of an alert.
func testFiles(tb testing.TB, alert string) []string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", alert+"*.test.yaml"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no promtool tests of %s: %v", alert, err)
	}
	slices.SortFunc(files, func(a, b string) int { return len(a) - len(b) }) // the seldom needed ones last
	return files
}

// The case A41: a misspelled $label is an error.
func TestPromtoolFindsNothingWrongWithTheRules(t *testing.T) {
	t.Parallel()
	if out, err := promtool(t, "check", "rules", "--lint=all", "--lint-fatal", shipped); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The cases A42 to A44, A50 to A53, A56, A57 and A60 are in the files.
func TestPromtoolTestsOfTheShippedRulesPass(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".test.yaml"), func(t *testing.T) {
			t.Parallel()
			if out, err := promtool(t, "test", "rules", file); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
