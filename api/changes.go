package api

import (
	"cmp"
	"slices"
	"strings"
)

// Changes finds out what is not as it was. The zero value has seen nothing. Not safe from several goroutines at once.
type Changes struct {
	said map[string]map[place]string // what was last said of each lock in each database, by target
}

// place is one lock in one database of a target. Without a database, it is the lock in all of them, of which nothing is known.
type place struct{ lock, datname string }

// unsaid is said of a lock in a database while nothing is known of the lock anywhere.
const unsaid = ""

// Removed is what is not watched any more: a lock in a database, a lock in all databases, or a whole target.
type Removed struct {
	Target  string `json:"target"`
	Datname string `json:"datname,omitempty"`
	Lock    string `json:"lock,omitempty"`
}

// String says it in words.
func (r Removed) String() string {
	names := slices.DeleteFunc([]string{r.Target, r.Lock, r.Datname}, func(name string) bool { return name == "" })
	return strings.Join(names, " ") + ": not watched any more"
}

// Of takes all that is to be said of a target, and returns those locks of which something else is to be said than the last time, those that
// are new, and those that are not watched any more.
func (c *Changes) Of(target string, locks []Lock) (changed []Lock, removed []Removed) {
	before, now := c.said[target], make(map[place]string, len(locks))
	unknown := make(map[string]bool) // whether nothing is known of a lock, for each lock that is watched
	for _, lock := range locks {
		id := place{lock.Lock, lock.Datname}
		now[id] = lock.String()
		unknown[lock.Lock] = unknown[lock.Lock] || lock.Datname == ""
		if before[id] != now[id] {
			changed = append(changed, lock)
		}
	}
	for id := range before {
		_, there := now[id]
		_, watched := unknown[id.lock]
		switch {
		case there:
		case unknown[id.lock]:
			now[id] = unsaid // its database may be there still
		case id.datname == "" && watched:
			// what was said of all databases is now said of each
		default:
			removed = append(removed, Removed{Target: target, Datname: id.datname, Lock: id.lock})
		}
	}
	slices.SortFunc(removed, func(a, b Removed) int { return cmp.Or(cmp.Compare(a.Lock, b.Lock), cmp.Compare(a.Datname, b.Datname)) })
	if c.said == nil {
		c.said = make(map[string]map[place]string)
	}
	c.said[target] = now
	return changed, removed
}

// Forget forgets a target.
func (c *Changes) Forget(target string) { delete(c.said, target) }
