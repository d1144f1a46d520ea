package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/plexsphere/leader-exporter/lockwatch"
)

// Verdict is what can be said of a lock.
type Verdict string

// The verdicts.
const (
	Held     Verdict = "held"     // one session holds it exclusively
	Unheld   Verdict = "unheld"   // no session does
	Multiple Verdict = "multiple" // several sessions have it, shared
	Unknown  Verdict = "unknown"  // Lock.Error says why
)

// Lock is the state of one lock in one database of a target.
type Lock struct {
	Target  string            `json:"target"`
	Labels  map[string]string `json:"labels,omitempty"`  // the target's own
	Datname string            `json:"datname,omitempty"` // empty while nothing is known of the lock
	Lock    string            `json:"lock"`
	Key     string            `json:"key"`
	Verdict Verdict           `json:"verdict"`
	Holders *int              `json:"holders,omitempty"` // nil while it is unknown, as Waiters
	Waiters *int              `json:"waiters,omitempty"`
	Holder  *Holder           `json:"holder,omitempty"`
	Error   string            `json:"error,omitempty"`
	At      *time.Time        `json:"at,omitempty"` // the poll's end, by the exporter's clock
}

// Holder is the exclusive holder. Its times are of the server's clock.
type Holder struct {
	PID                 uint32     `json:"pid"`
	Visible             bool       `json:"visible"`                    // the role sees more than the pid; else that is nil
	ApplicationName     *string    `json:"application_name,omitempty"` // may be empty
	Usename             *string    `json:"usename,omitempty"`
	ClientAddr          *string    `json:"client_addr,omitempty"` // empty on a unix socket
	BackendStart        *time.Time `json:"backend_start,omitempty"`
	TermStart           *time.Time `json:"term_start,omitempty"`
	HeartbeatAgeSeconds *float64   `json:"heartbeat_age_seconds,omitempty"`
	Foreign             bool       `json:"foreign,omitempty"` // its application_name matches no expected pattern
}

// Target is what is watched under one name.
type Target struct {
	Name   string
	Labels map[string]string
	Locks  []lockwatch.Lock
	Source Source
}

// Source tells what is known of a target without waiting. *lockwatch.Watcher is one.
type Source interface {
	Snapshot() lockwatch.Snapshot
}

// LocksOf returns the state of each lock in each database of the target, as the snapshot has it at the moment now, or one of
// each lock when nothing is known.
func (t Target) LocksOf(s lockwatch.Snapshot, now time.Time) []Lock {
	var locks []Lock
	if why := whyUnknown(s, now); why != "" {
		for _, lock := range t.Locks {
			locks = append(locks, t.unknown(s, lock, "", why))
		}
		return locks
	}
	for _, lock := range t.Locks {
		told := make(map[string]bool)
		for _, state := range s.Locks {
			if state.Known && state.Lock == lock.Name {
				told[state.Datname] = true
				locks = append(locks, t.known(s, lock, state))
			}
		}
		for _, datname := range lock.Databases {
			if datname != lockwatch.AllDatabases && !told[datname] {
				locks = append(locks, t.unknown(s, lock, datname, "database not found: "+datname))
			}
		}
	}
	return locks
}

// whyUnknown returns why the snapshot tells nothing of locks, or nothing.
func whyUnknown(s lockwatch.Snapshot, now time.Time) string {
	switch {
	case s.Err != nil:
		return strings.Join(strings.Fields(s.Err.Error()), " ") // pgx writes a line for each address
	case s.At.IsZero():
		return "the target was not polled yet"
	case s.InRecovery:
		return "the server is in recovery (a hot standby): it cannot tell who holds the primary's lock"
	case !s.Fresh(now):
		return fmt.Sprintf("the last poll ended %v ago", now.Sub(s.At).Round(time.Millisecond))
	default:
		return ""
	}
}

func (t Target) unknown(s lockwatch.Snapshot, lock lockwatch.Lock, datname, why string) Lock {
	return Lock{
		Target: t.Name, Labels: t.Labels, Datname: datname, Lock: lock.Name, Key: lock.Key.String(), Verdict: Unknown, Error: why, At: known(s.At),
	}
}

// known turns what a poll told of a lock into its state.
func (t Target) known(s lockwatch.Snapshot, lock lockwatch.Lock, state lockwatch.LockState) Lock {
	found := Lock{
		Target: t.Name, Labels: t.Labels, Datname: state.Datname, Lock: lock.Name, Key: lock.Key.String(),
		Holders: &state.Holders, Waiters: &state.Waiters, At: known(s.At),
	}
	if holder := state.Holder; holder != nil {
		found.Holder = &Holder{
			PID:             holder.PID,
			Visible:         holder.Visible,
			ApplicationName: seen(*holder, holder.ApplicationName),
			Usename:         seen(*holder, holder.Usename),
			ClientAddr:      seen(*holder, holder.ClientAddr),
			BackendStart:    known(holder.BackendStart),
			TermStart:       known(holder.TermStart),
			Foreign:         holder.Foreign,
		}
		if holder.HeartbeatAge >= 0 {
			age := holder.HeartbeatAge.Seconds()
			found.Holder.HeartbeatAgeSeconds = &age
		}
	}
	switch {
	case state.Holders > 1:
		found.Verdict = Multiple
	case state.Holder == nil:
		found.Verdict = Unheld
	default:
		found.Verdict = Held
	}
	return found
}

// seen returns a detail of the holder, or nil where the role cannot see it.
func seen(h lockwatch.Holder, detail string) *string {
	if !h.Visible {
		return nil
	}
	return &detail
}

// valueOf returns what p points to, or the zero value.
func valueOf[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// known returns the time in UTC, or nil for a zero one.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// String says in words who holds the lock. It leaves out what changes while nothing happens.
func (l Lock) String() string {
	name := strings.TrimSuffix(strings.Join([]string{l.Target, l.Lock, l.Datname}, " "), " ")
	switch {
	case l.Verdict == Unknown:
		return name + ": unknown: " + l.Error
	case l.Verdict == Multiple:
		return fmt.Sprintf("%s: held by %d sessions", name, valueOf(l.Holders))
	case l.Holder == nil:
		return name + ": held by nobody"
	default:
		return name + ": held by " + l.Holder.String()
	}
}

// String says in words which backend it is.
func (h Holder) String() string {
	who := fmt.Sprintf("backend %d", h.PID)
	if !h.Visible {
		return who + ", of which the role sees no more"
	}
	for _, detail := range []*string{h.ApplicationName, h.Usename, h.ClientAddr} {
		if valueOf(detail) != "" {
			who += ", " + *detail
		}
	}
	if h.BackendStart != nil {
		who += ", started " + h.BackendStart.Format(time.RFC3339)
	}
	return who
}
