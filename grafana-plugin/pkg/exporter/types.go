package exporter

import "time"

// The verdicts on a lock.
const (
	Held     = "held"     // one session holds it exclusively
	Unheld   = "unheld"   // no session does
	Multiple = "multiple" // several sessions have it, shared
	Unknown  = "unknown"  // Lock.Error says why
)

// Locks is what /api/v1/locks answers.
type Locks struct {
	Locks   []Lock   `json:"locks"`
	Targets []Target `json:"targets"`
}

// Lock is the present state of one lock in one database of a target.
type Lock struct {
	Target  string            `json:"target"`
	Labels  map[string]string `json:"labels"`  // of the target, from the exporter's configuration
	Datname string            `json:"datname"` // empty while nothing is known of the lock
	Lock    string            `json:"lock"`
	Key     string            `json:"key"`
	Verdict string            `json:"verdict"`
	Holders *int64            `json:"holders"` // nil when the verdict is Unknown, as Waiters
	Waiters *int64            `json:"waiters"`
	Holder  *Holder           `json:"holder"`
	Error   string            `json:"error"`
	At      *time.Time        `json:"at"` // end of the last poll, by the exporter's clock
}

// Holder is the exclusive holder; what the exporter cannot see is nil.
type Holder struct {
	PID                 int64      `json:"pid"`
	Visible             bool       `json:"visible"` // the exporter's role may see more than the pid
	ApplicationName     *string    `json:"application_name"`
	Usename             *string    `json:"usename"`
	ClientAddr          *string    `json:"client_addr"` // empty on a unix socket
	BackendStart        *time.Time `json:"backend_start"`
	TermStart           *time.Time `json:"term_start"`
	HeartbeatAgeSeconds *float64   `json:"heartbeat_age_seconds"`
	Foreign             bool       `json:"foreign"` // its application_name is none of those expected
}

// Target is what the exporter knows of a server as a whole.
type Target struct {
	Target              string     `json:"target"`
	Up                  bool       `json:"up"`
	Error               string     `json:"error"`
	LastSuccess         *time.Time `json:"last_success"`
	PollIntervalSeconds float64    `json:"poll_interval_seconds"`
}

// Removed names what is not watched any more: a target, or one lock of it where Lock is set.
type Removed struct {
	Target  string `json:"target"`
	Datname string `json:"datname"`
	Lock    string `json:"lock"`
}

// Term is the time through which one backend held a lock. It began between StartedAfter and Start, and ended between LastSeen
// and End, by the server's clock.
type Term struct {
	Target          string     `json:"target"`
	Datname         string     `json:"datname"`
	Lock            string     `json:"lock"`
	PID             int64      `json:"pid"`
	ApplicationName string     `json:"application_name"`
	Usename         string     `json:"usename"`
	ClientAddr      string     `json:"client_addr"`
	BackendStart    *time.Time `json:"backend_start"`
	StartedAfter    *time.Time `json:"started_after"` // nil where no poll came before
	Start           time.Time  `json:"start"`
	LastSeen        time.Time  `json:"last_seen"`
	End             *time.Time `json:"end"`     // nil where no poll has seen it ended
	Ongoing         bool       `json:"ongoing"` // without End, and still watched; without both, its end is not known
}

// Filter selects locks by name; an empty list is every name.
type Filter struct {
	Targets   []string `json:"targets,omitempty"`
	Databases []string `json:"databases,omitempty"`
	Locks     []string `json:"locks,omitempty"`
}
