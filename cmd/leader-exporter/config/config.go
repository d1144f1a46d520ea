// Package config says what the exporter watches, from a file or from the environment.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/plexsphere/leader-exporter/lockkey"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// The names of what is watched without a file.
const (
	DefaultTarget = "default"
	DefaultLock   = "background-leader"
)

// Config is what to watch. Durations that are zero are not in the file.
type Config struct {
	CheckInterval time.Duration // of the replicas
	PollInterval  time.Duration
	PollTimeout   time.Duration
	Targets       []Target
}

// Target is one server, and the locks to watch on it.
type Target struct {
	Name   string
	Labels map[string]string // static labels of its series
	Source Source
	Locks  []lockwatch.Lock
}

// Load reads the file, or without a path the environment. Its error has a line for each problem, and begins with the file
// and the number of its line.
func Load(path string) (Config, error) {
	if path == "" {
		source, err := FromEnvironment()
		if err != nil {
			return Config{}, err
		}
		return Config{Targets: []Target{{
			Name: DefaultTarget, Source: source, Locks: defaultLocks(),
		}}}, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("--config.file: %w", err)
	}
	return parse(path, content)
}

// defaultLocks are those of a target that names none.
func defaultLocks() []lockwatch.Lock {
	return []lockwatch.Lock{{Name: DefaultLock, Key: lockkey.BackgroundLeader()}}
}

// parse reads the content of the file.
func parse(path string, content []byte) (Config, error) {
	var document, second yaml.Node
	d := &decoder{path: path}
	var c Config
	documents := yaml.NewDecoder(bytes.NewReader(content))
	err := documents.Decode(&document)
	if err == nil {
		if err = documents.Decode(&second); err == nil {
			d.problem(&second, "a second document begins here: want one")
			return c, d.err()
		}
	}
	if !errors.Is(err, io.EOF) {
		return Config{}, fmt.Errorf("%s: %w", path, WithoutValues(err))
	}
	if len(document.Content) == 0 {
		d.problem(&yaml.Node{Line: 1}, "the file is empty: want targets")
		return c, d.err()
	}
	root := document.Content[0]
	d.mapping(root, "", map[string]func(*yaml.Node, string){
		"check_interval": func(n *yaml.Node, at string) { c.CheckInterval = d.duration(n, at) },
		"poll_interval":  func(n *yaml.Node, at string) { c.PollInterval = d.duration(n, at) },
		"poll_timeout":   func(n *yaml.Node, at string) { c.PollTimeout = d.duration(n, at) },
		"targets": func(n *yaml.Node, at string) {
			names := make(map[string]bool)
			d.sequence(n, at, func(n *yaml.Node, at string) { c.Targets = append(c.Targets, d.target(n, at, names)) })
		},
	})
	if len(c.Targets) == 0 && d.err() == nil {
		d.problem(root, "targets: want at least one")
	}
	return c, d.err()
}

// yamlError is how errors of YAML begin, in all versions of the library, and the line that they name.
var yamlError = regexp.MustCompile(`yaml: (?:unmarshal errors:\s+)?(line \d+)?`)

// WithoutValues keeps of an error of YAML what cannot be part of a secret: the line. Other errors stay as they are.
func WithoutValues(err error) error {
	switch match := yamlError.FindStringSubmatch(err.Error()); {
	case match == nil:
		return err
	case match[1] == "":
		return errors.New("not valid YAML")
	default:
		return errors.New(match[1] + ": not valid YAML")
	}
}

// target reads one of targets, beside those of the names.
func (d *decoder) target(n *yaml.Node, at string, names map[string]bool) Target {
	t := Target{Labels: make(map[string]string)}
	sources, before := 0, len(d.problems)
	d.mapping(n, at, map[string]func(*yaml.Node, string){
		"name": func(n *yaml.Node, at string) { t.Name = d.unique(n, at, names, "target") },
		"dsn": func(n *yaml.Node, at string) {
			sources++
			t.Source.Origin, t.Source.DSN = d.place(n, at), d.filled(n, at)
		},
		"dsn_file": func(n *yaml.Node, at string) {
			sources++
			t.Source.Origin, t.Source.DSNFile = d.place(n, at), File{d.place(n, at), d.filled(n, at)}
		},
		"password_file": func(n *yaml.Node, at string) { t.Source.PasswordFile = File{d.place(n, at), d.filled(n, at)} },
		"labels":        func(n *yaml.Node, at string) { d.labels(n, at, t.Labels) },
		"locks": func(n *yaml.Node, at string) {
			names := make(map[string]bool)
			d.sequence(n, at, func(n *yaml.Node, at string) { t.Locks = append(t.Locks, d.lock(n, at, names)) })
		},
	})
	if t.Name == "" {
		d.problem(n, "%s.name is missing", at)
	}
	switch sources {
	case 0:
		d.problem(n, "%s: dsn or dsn_file is missing", at)
	case 1:
		if len(d.problems) > before {
			break // what there is may be half of it
		}
		if _, err := t.Source.ConnConfig(); err != nil {
			d.problems = append(d.problems, err.Error())
		}
		t.Source = t.Source.withoutLines(d.path)
	default:
		d.problem(n, "%s: dsn and dsn_file exclude each other", at)
	}
	if len(t.Locks) == 0 {
		t.Locks = defaultLocks()
	}
	return t
}

// labelName is what Prometheus takes for the name of a label in all of its versions.
var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// reserved returns the labels that the exporter's own metrics have, or that Prometheus sets.
func reserved() []string {
	return []string{
		"target", "datname", "lock", "client_addr", "application_name", "usename", "reason", "le", "job", "instance",
	}
}

// labels reads the static labels of a target.
func (d *decoder) labels(n *yaml.Node, at string, into map[string]string) {
	d.each(n, at, func(key, value *yaml.Node, at string) {
		switch name := key.Value; {
		case !labelName.MatchString(name) || strings.HasPrefix(name, "__"):
			d.problem(key, "%s: not the name of a label", at)
		case slices.Contains(reserved(), name):
			d.problem(key, "%s: the exporter or Prometheus sets that label", at)
		default:
			into[name] = d.text(value, at)
		}
	})
}

// lock reads one of the locks of a target, beside those of the names.
func (d *decoder) lock(n *yaml.Node, at string, names map[string]bool) lockwatch.Lock {
	var l lockwatch.Lock
	hasKey := false
	d.mapping(n, at, map[string]func(*yaml.Node, string){
		"name": func(n *yaml.Node, at string) { l.Name = d.unique(n, at, names, "lock of the target") },
		"key": func(n *yaml.Node, at string) {
			hasKey = true
			key, err := lockkey.Parse(d.text(n, at))
			if err != nil {
				d.problem(n, "%s: %v", at, err)
			}
			l.Key = key
		},
		"databases": func(n *yaml.Node, at string) { l.Databases = d.texts(n, at) },
		"expected_application_names": func(n *yaml.Node, at string) {
			l.ExpectedApplicationNames = d.texts(n, at)
			d.patterns(n, at, l.ExpectedApplicationNames)
		},
	})
	if l.Name == "" {
		d.problem(n, "%s.name is missing", at)
	}
	if !hasKey {
		d.problem(n, "%s.key is missing", at)
	}
	return l
}
