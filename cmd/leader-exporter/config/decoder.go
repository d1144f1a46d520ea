package config

import (
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// decoder reads YAML nodes and collects every problem with its line. yaml.v3 itself loses the check for unknown keys, and the
// lines, where a type decodes itself.
type decoder struct {
	path     string
	problems []string
}

// problem notes what is wrong at a node. It must not repeat values that may be secret.
func (d *decoder) problem(n *yaml.Node, format string, args ...any) {
	d.problems = append(d.problems, fmt.Sprintf("%s:%d: %s", d.path, n.Line, fmt.Sprintf(format, args...)))
}

// err returns all problems, a line each.
func (d *decoder) err() error {
	if len(d.problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(d.problems, "\n"))
}

// place names a node in errors that come later.
func (d *decoder) place(n *yaml.Node, at string) string {
	return fmt.Sprintf("%s:%d: %s", d.path, n.Line, at)
}

// mapping hands each key's value to the function of that key, with its place in the document.
func (d *decoder) mapping(n *yaml.Node, at string, keys map[string]func(*yaml.Node, string)) {
	d.each(n, at, func(key, value *yaml.Node, at string) {
		read, known := keys[key.Value]
		if !known {
			var names []string
			for name := range keys {
				names = append(names, name)
			}
			slices.Sort(names)
			d.problem(key, "%s: unknown key; known are %s", at, strings.Join(names, ", "))
			return
		}
		read(value, at)
	})
}

// each calls f for each key of a mapping.
func (d *decoder) each(n *yaml.Node, at string, f func(key, value *yaml.Node, at string)) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		d.problem(n, "%s: want keys with values", orDocument(at))
		return
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		place := strings.TrimPrefix(at+"."+key.Value, ".")
		if seen[key.Value] {
			d.problem(key, "%s is there twice", place)
			continue
		}
		seen[key.Value] = true
		f(key, resolve(value), place)
	}
}

// sequence calls f for each element of a list.
func (d *decoder) sequence(n *yaml.Node, at string, f func(n *yaml.Node, at string)) {
	if n.Kind != yaml.SequenceNode {
		d.problem(n, "%s: want a list", at)
		return
	}
	for i, element := range n.Content {
		f(resolve(element), fmt.Sprintf("%s[%d]", at, i))
	}
}

// resolve follows an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func orDocument(at string) string {
	if at == "" {
		return "the file"
	}
	return at
}

// variable is a reference to the environment: ${NAME}.
var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// text reads a scalar, with the variables of the environment in it.
func (d *decoder) text(n *yaml.Node, at string) string {
	if n.Kind != yaml.ScalarNode {
		d.problem(n, "%s: want one value", at)
		return ""
	}
	return variable.ReplaceAllStringFunc(n.Value, func(reference string) string {
		name := variable.FindStringSubmatch(reference)[1]
		value, set := os.LookupEnv(name)
		if !set {
			d.problem(n, "%s: the variable %s is not set", at, name)
		}
		return value
	})
}

// filled reads a scalar that must not be empty.
func (d *decoder) filled(n *yaml.Node, at string) string {
	before := len(d.problems)
	value := d.text(n, at)
	if value == "" && len(d.problems) == before {
		d.problem(n, "%s is empty", at)
	}
	return value
}

// texts reads a list of scalars.
func (d *decoder) texts(n *yaml.Node, at string) (values []string) {
	d.sequence(n, at, func(n *yaml.Node, at string) {
		values = append(values, d.filled(n, at))
	})
	return values
}

// duration reads a time such as 5s, which must be at least a millisecond.
func (d *decoder) duration(n *yaml.Node, at string) time.Duration {
	value, err := time.ParseDuration(d.text(n, at))
	if err != nil || value < time.Millisecond {
		d.problem(n, "%s: %q: want a duration of 1ms or more, such as 5s", at, n.Value)
	}
	return value
}

// unique reads a name that none of its kind has yet.
func (d *decoder) unique(n *yaml.Node, at string, names map[string]bool, kind string) string {
	name := d.text(n, at)
	if names[name] {
		d.problem(n, "%s: %q is the name of another %s", at, name, kind)
	}
	names[name] = true
	return name
}

// patterns tries patterns.
func (d *decoder) patterns(n *yaml.Node, at string, patterns []string) {
	for i, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			d.problem(n.Content[i], "%s[%d]: %q: not a pattern, as of Go's path.Match", at, i, pattern)
		}
	}
}
