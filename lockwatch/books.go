package lockwatch

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// books are those of all locks of a target, one for each lock in each database. They belong to whoever polls.
type books struct {
	cfg   Config
	terms map[book]*terms
	// away are terms that went on when they were last seen, and of whose lock no answer has told since: those of an earlier Watcher, and
	// those of a cluster or database that the connection was to and is not to now.
	away map[book][]Term
	gone map[book]bool // watched by its name, and not there as of the last answer
}

// book names one of them.
type book struct {
	lock    int // its place in Config.Locks
	datname string
}

func newBooks(cfg Config) books {
	b := books{cfg: cfg, terms: make(map[book]*terms), away: make(map[book][]Term)}
	for _, term := range cfg.Resume {
		lock := slices.IndexFunc(cfg.Locks, func(l Lock) bool { return l.Name == term.Lock })
		if lock >= 0 && term.End.IsZero() {
			b.setAside(book{lock, term.Datname}, term)
		}
	}
	return b
}

func (b *books) setAside(id book, term Term) { b.away[id] = append(b.away[id], term) }

// takeBack returns the terms that were set aside of which an answer of this server tells. The others stay.
func (b *books) takeBack(id book, server Server) (told []Term) {
	var elsewhere []Term
	for _, term := range b.away[id] {
		if term.isElsewhere(b.cfg.Locks[id.lock].Key, server) {
			elsewhere = append(elsewhere, term)
		} else {
			told = append(told, term)
		}
	}
	if b.away[id] = elsewhere; elsewhere == nil {
		delete(b.away, id)
	}
	return told
}

// enter notes a poll, which came an interval after the last one, and returns the terms that it shows to have ended or begun. A hot
// standby's locks are its own, so it tells nothing; nor is anything known of a time in which this process itself stood still.
func (b *books) enter(got answer, known bool, at time.Time, interval time.Duration) (changes []Term) {
	if !known {
		for _, t := range b.terms {
			t.unanswered()
		}
		return nil
	}
	b.gone = make(map[book]bool)
	for i, lock := range b.cfg.Locks {
		for _, datname := range lock.Databases {
			if datname != AllDatabases {
				b.gone[book{i, datname}] = true
			}
		}
	}
	seen := make(map[book]bool)
	for _, database := range got.databases {
		for i, lock := range b.cfg.Locks {
			id := book{i, database.datname}
			if !lock.isIn(database) && !b.follows(id, got.server) {
				continue
			}
			seen[id] = true
			delete(b.gone, id)
			o := database.observations[i]
			o.at, o.serverNow, o.asked, o.server = at, got.serverNow, got.serverNow.Add(-got.spent), got.server
			changes = append(changes, b.enterOne(id, o, staleAfter*interval+b.cfg.PollTimeout)...)
		}
	}
	return append(changes, b.enterUnseen(got, seen)...)
}

// enterOne notes what was seen of one lock in one database. What was seen longer than the gap ago does not count.
func (b *books) enterOne(id book, o observation, gap time.Duration) (changes []Term) {
	t := b.terms[id]
	if t == nil {
		t = newTerms(id.datname, b.cfg.Locks[id.lock])
		b.terms[id] = t
	}
	if t.server.isAnother(o.server) {
		if left := t.leave(); left != nil {
			b.setAside(id, *left)
		}
	}
	if t.asked && o.at.Sub(t.previous.at) > gap {
		t.unanswered()
	}
	if patterns := b.cfg.Locks[id.lock].ExpectedApplicationNames; o.holder != nil && !o.vanished && len(patterns) > 0 {
		o.holder.Foreign = !slices.ContainsFunc(patterns, func(pattern string) bool {
			matched, _ := path.Match(pattern, o.holder.ApplicationName) // New has tried the pattern
			return matched
		})
	}
	return t.observe(o, b.takeBack(id, o.server)...)
}

// enterUnseen notes that an answer told nothing of the other locks, and returns the terms that it thereby shows to have ended.
func (b *books) enterUnseen(got answer, seen map[book]bool) (changes []Term) {
	for id, t := range b.terms {
		switch {
		case seen[id]:
		case b.gone[id]:
			t.unanswered() // its counters go on when it comes back
		default: // the database is gone, or the connection is to another one
			if left := t.leave(); left != nil {
				b.setAside(id, *left)
			}
			delete(b.terms, id)
		}
	}
	for id := range b.away {
		// Where all databases are told of, one that is not is gone, and whoever held the lock in it.
		if !seen[id] && !b.gone[id] && slices.Contains(b.cfg.Locks[id.lock].Databases, AllDatabases) {
			for _, term := range b.takeBack(id, got.server) {
				changes = append(changes, term.ended(got.serverNow))
			}
		}
	}
	return changes
}

// follows reports whether the lock is known in a database of the server that may take no connections any more, or be a template now: sessions
// that are in it go on.
func (b *books) follows(id book, server Server) bool {
	lock := b.cfg.Locks[id.lock]
	return slices.Contains(lock.Databases, AllDatabases) && (b.terms[id] != nil || slices.ContainsFunc(b.away[id], func(term Term) bool {
		return !term.isElsewhere(lock.Key, server)
	}))
}

// isIn reports whether the lock is watched in the database.
func (l Lock) isIn(d databaseAnswer) bool {
	if len(l.Databases) == 0 {
		return d.own
	}
	return slices.Contains(l.Databases, d.datname) || d.listed && slices.Contains(l.Databases, AllDatabases)
}

// missing returns an error when none of the databases is there in which locks are watched.
func (b *books) missing() error {
	for _, t := range b.terms {
		if t.state.Known {
			return nil
		}
	}
	if absent := b.absent(); len(absent) > 0 {
		return fmt.Errorf("database not found: %s", strings.Join(absent, ", "))
	}
	return errors.New("the server has no database to watch")
}

// absent returns the databases that are watched by their name and were not there at the last answer.
func (b *books) absent() []string {
	var names []string
	for id := range b.gone {
		names = append(names, id.datname)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// states returns what is known of all locks, in the order of Config.Locks and of the databases' names.
func (b *books) states() []LockState {
	ids := make([]book, 0, len(b.terms))
	for id := range b.terms {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(x, y book) int {
		if x.lock != y.lock {
			return x.lock - y.lock
		}
		return strings.Compare(x.datname, y.datname)
	})
	states := make([]LockState, len(ids))
	for i, id := range ids {
		states[i] = b.terms[id].state
	}
	return states
}
