package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plexsphere/leader-exporter/cmd/leader-exporter/config"
	"github.com/plexsphere/leader-exporter/lockkey"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// write returns the path of a file with the content.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "exporter.yml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEveryKeyIsRead(t *testing.T) {
	t.Setenv("PLEXSPHERE_DSN", "postgres://monitor:secret@eu.example/plexsphere")
	secret := write(t, "password\n")
	path := write(t, `
check_interval: 5s
poll_interval: 500ms
poll_timeout: 3s
targets:
  - name: prod-eu
    dsn: ${PLEXSPHERE_DSN}
    labels: {deployment: prod-eu, tier: gold}
    locks:
      - name: background-leader
        key: 1886156915/1
        databases: [plexsphere, other]
        expected_application_names: ["plexsphere*"]
      - {name: mail, key: -7, databases: ["*"]}
  - name: prod-us
    dsn_file: `+write(t, "host=us.example dbname=plexsphere")+`
    password_file: `+secret+`
`)
	got, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.CheckInterval != 5*time.Second || got.PollInterval != 500*time.Millisecond || got.PollTimeout != 3*time.Second || len(got.Targets) != 2 {
		t.Errorf("config %+v", got)
	}
	eu, us := got.Targets[0], got.Targets[1]
	if diff := cmp.Diff(map[string]string{"deployment": "prod-eu", "tier": "gold"}, eu.Labels); eu.Name != "prod-eu" || diff != "" {
		t.Errorf("target %s, labels (-want +got):\n%s", eu.Name, diff)
	}
	want := []lockwatch.Lock{
		{Name: "background-leader", Key: lockkey.BackgroundLeader(), Databases: []string{"plexsphere", "other"}, ExpectedApplicationNames: []string{"plexsphere*"}},
		{Name: "mail", Key: lockkey.Bigint(-7), Databases: []string{lockwatch.AllDatabases}},
	}
	if diff := cmp.Diff(want, eu.Locks, cmp.AllowUnexported(lockkey.Key{})); diff != "" {
		t.Errorf("locks (-want +got):\n%s", diff)
	}
	if len(us.Locks) != 1 || us.Locks[0].Name != config.DefaultLock || us.Locks[0].Key != lockkey.BackgroundLeader() {
		t.Errorf("a target without locks watches %+v, want the background leader's", us.Locks)
	}
	for _, tc := range []struct {
		target         config.Target
		host, password string
	}{{eu, "eu.example", "secret"}, {us, "us.example", "password"}} {
		conn, err := tc.target.Source.ConnConfig()
		if err != nil || conn.Host != tc.host || conn.Password != tc.password {
			t.Errorf("%s: %v, host %q, password of %d bytes", tc.target.Name, err, conn.Host, len(conn.Password))
		}
	}
}

// Every mistake is named with file and line, all at once, and no secret with it.
func TestMistakesAreNamedWithTheirLine(t *testing.T) {
	t.Setenv("EMPTY_VARIABLE", "")
	const good = "  - {name: a, dsn: 'host=h'}\n"
	for name, tc := range map[string]struct {
		content string
		want    []string
	}{
		"empty":              {"", []string{":1: the file is empty: want targets"}},
		"no targets":         {"poll_interval: 1s\n", []string{":1: targets: want at least one"}},
		"no mapping":         {"- a\n", []string{":1: the file: want keys with values"}},
		"not YAML":           {"targets:\n\t- password: S3CRET\n", []string{": line 2: not valid YAML"}},
		"alias of a secret":  {"targets:\n  - name: a\n    dsn: *S3CRET\n", []string{": not valid YAML"}},
		"two documents":      {"targets:\n" + good + "---\ntargets: []\n", []string{":3: a second document begins here: want one"}},
		"end of a document":  {"targets:\n" + good + "---\nx: [\n", []string{": line 4: not valid YAML"}},
		"unknown key":        {"targetz: []\ntargets:\n" + good, []string{":1: targetz: unknown key; known are check_interval, poll_interval, poll_timeout, targets"}},
		"key twice":          {"poll_interval: 1s\npoll_interval: 2s\ntargets:\n" + good, []string{":2: poll_interval is there twice"}},
		"duration":           {"poll_interval: 5\ntargets:\n" + good, []string{`:1: poll_interval: "5": want a duration of 1ms or more, such as 5s`}},
		"negative duration":  {"poll_timeout: -1s\ntargets:\n" + good, []string{`:1: poll_timeout: "-1s": want`}},
		"no list":            {"targets: {name: a}\n", []string{":1: targets: want a list"}},
		"no name":            {"targets:\n  - dsn: host=h\n", []string{":2: targets[0].name is missing"}},
		"name twice":         {"targets:\n" + good + good, []string{`:3: targets[1].name: "a" is the name of another target`}},
		"no dsn":             {"targets:\n  - name: a\n", []string{":2: targets[0]: dsn or dsn_file is missing"}},
		"both":               {"targets:\n  - name: a\n    dsn: host=h\n    dsn_file: /f\n", []string{":2: targets[0]: dsn and dsn_file exclude each other"}},
		"empty dsn":          {"targets:\n  - name: a\n    dsn: ''\n", []string{":3: targets[0].dsn is empty"}},
		"bad dsn":            {"targets:\n  - name: a\n    dsn: 'host=h password = S3CRET port=abc'\n", []string{":3: targets[0].dsn: malformed connection string: invalid port"}},
		"dsn is a list":      {"targets:\n  - name: a\n    dsn: [S3CRET]\n", []string{":3: targets[0].dsn: want one value"}},
		"no such file":       {"targets:\n  - name: a\n    dsn_file: /no/such/file\n", []string{":3: targets[0].dsn_file: open /no/such/file: no such file or directory"}},
		"secret as a file":   {"targets:\n  - name: a\n    dsn: host=h\n    password_file: S3CRET\n", []string{":4: targets[0].password_file: the file that it names (not shown"}},
		"unset variable":     {"targets:\n  - name: a\n    dsn: ${NO_SUCH_VARIABLE}\n", []string{":3: targets[0].dsn: the variable NO_SUCH_VARIABLE is not set"}},
		"empty variable":     {"targets:\n  - name: a\n    dsn: ${EMPTY_VARIABLE}\n", []string{":3: targets[0].dsn is empty"}},
		"bad label":          {"targets:\n  - name: a\n    dsn: host=h\n    labels: {a-b: c, __x: y}\n", []string{":4: targets[0].labels.a-b: not the name of a label", "targets[0].labels.__x: not the name of a label"}},
		"reserved label":     {"targets:\n  - name: a\n    dsn: host=h\n    labels:\n      lock: c\n", []string{":5: targets[0].labels.lock: the exporter or Prometheus sets that label"}},
		"lock without name":  {"targets:\n  - name: a\n    dsn: host=h\n    locks:\n      - {key: 1/2}\n", []string{":5: targets[0].locks[0].name is missing"}},
		"lock without key":   {"targets:\n  - name: a\n    dsn: host=h\n    locks:\n      - {name: l}\n", []string{":5: targets[0].locks[0].key is missing"}},
		"bad key":            {"targets:\n  - name: a\n    dsn: host=h\n    locks:\n      - {name: l, key: plexsphere/1}\n", []string{":5: targets[0].locks[0].key: "}},
		"lock twice":         {"targets:\n  - name: a\n    dsn: host=h\n    locks:\n      - {name: l, key: 1}\n      - {name: l, key: 2}\n", []string{`:6: targets[0].locks[1].name: "l" is the name of another lock of the target`}},
		"empty database":     {"targets:\n  - name: a\n    dsn: host=h\n    locks:\n      - {name: l, key: 1, databases: ['']}\n", []string{":5: targets[0].locks[0].databases[0] is empty"}},
		"bad pattern":        {"targets:\n  - name: a\n    dsn: host=h\n    locks:\n      - {name: l, key: 1, expected_application_names: ['[']}\n", []string{`:5: targets[0].locks[0].expected_application_names[0]: "[": not a pattern`}},
		"several at once":    {"poll_interval: x\ntargets:\n  - name: a\n    dsm: host=h\n    locks: [{name: l}]\n", []string{":1: poll_interval", ":4: targets[0].dsm: unknown key", ":5: targets[0].locks[0].key is missing", ":3: targets[0]: dsn or dsn_file is missing"}},
		"merge of an anchor": {"targets:\n  - &a {name: a, dsn: host=h}\n  - *a\n", []string{`:2: targets[1].name: "a" is the name of another target`}},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, tc.content)
			_, err := config.Load(path)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), path+want) && !strings.Contains(err.Error(), want) {
					t.Errorf("error %v\nwant %s in it", err, want)
				}
			}
			if lines := strings.Count(err.Error(), "\n") + 1; lines != len(tc.want) {
				t.Errorf("%d lines, want %d: %v", lines, len(tc.want), err)
			}
			if strings.Contains(err.Error(), "S3CRET") {
				t.Errorf("the error holds a secret: %v", err)
			}
		})
	}
	if _, err := config.Load("/no/such/file"); err == nil || !strings.Contains(err.Error(), "--config.file: open /no/such/file") {
		t.Errorf("a missing file: %v", err)
	}
}

// What moves a target in the file changes nothing of it, and its later errors still name file and key.
func TestLinesAreNoPartOfATarget(t *testing.T) {
	path := write(t, "targets:\n  - name: a\n    dsn: host=h\n    password_file: "+write(t, "x")+"\n  - name: b\n    dsn_file: "+write(t, "host=h")+"\n")
	before, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	moved := strings.Replace("# a line\n"+string(content), "targets:\n", "targets:\n  - {name: new, dsn: host=h}\n", 1)
	if err := os.WriteFile(path, []byte(moved), 0o600); err != nil {
		t.Fatal(err)
	}
	after, err := config.Load(path)
	if diff := cmp.Diff(before.Targets, after.Targets[1:], cmp.AllowUnexported(lockkey.Key{})); err != nil || diff != "" {
		t.Errorf("%v, targets that moved (-before +after):\n%s", err, diff)
	}
	for i, key := range []string{"password_file", "dsn_file"} {
		source := before.Targets[i].Source
		for _, file := range []*config.File{&source.PasswordFile, &source.DSNFile} {
			if file.Path != "" {
				file.Path = "/no/such/file"
			}
		}
		if _, err := source.ConnConfig(); err == nil || !strings.HasPrefix(err.Error(), path+": "+key+": open /no/such/file") {
			t.Errorf("%v; want the file and %s in it", err, key)
		}
	}
}

// Whatever stands in the file, reading it ends with a configuration or an error.
func FuzzLoad(f *testing.F) {
	f.Add("targets: [{name: a, dsn: host=h, locks: [{name: l, key: 1}]}]")
	f.Add("targets:\n  - &x {name: a}\n  - *x\n")
	f.Add("? [a]\n: b\n")
	f.Fuzz(func(t *testing.T, content string) {
		c, err := config.Load(write(t, content))
		if err == nil && len(c.Targets) == 0 {
			t.Error("a configuration without a target, and no error")
		}
	})
}

// The file that the documentation shows is valid.
func TestDocumentedFileIsValid(t *testing.T) {
	text, err := os.ReadFile("../../../docs/exporter.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	shown, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/exporter.md shows no file")
	}
	t.Setenv("PLEXSPHERE_DSN", "postgres://monitor@localhost/postgres")
	c, err := config.Load(write(t, strings.ReplaceAll(shown, "/run/secrets/monitor", write(t, "secret"))))
	if err != nil || len(c.Targets) != 1 || len(c.Targets[0].Locks) != 1 || c.Targets[0].Locks[0].Key != lockkey.BackgroundLeader() {
		t.Errorf("%+v, %v", c, err)
	}
}
