package lockwatch

import "time"

// staleAfter is how many times the time between two polls must pass until a Snapshot says nothing any more.
const staleAfter = 3

// Reason is why a poll failed.
type Reason string

// The reasons. Every failed poll has exactly one.
const (
	ReasonConnect    Reason = "connect"    // no connection: host, port, TLS, too many clients, unknown database
	ReasonAuth       Reason = "auth"       // the server refuses the user (SQLSTATE class 28)
	ReasonTimeout    Reason = "timeout"    // no answer within the poll timeout
	ReasonPermission Reason = "permission" // the role may not do what a poll does (SQLSTATE 42501)
	ReasonQuery      Reason = "query"      // everything else that goes wrong with the statement
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{ReasonConnect, ReasonAuth, ReasonTimeout, ReasonPermission, ReasonQuery}
}

// Snapshot is what a Watcher knows after a poll.
type Snapshot struct {
	// Up is whether the last poll was answered, and one of the databases is there in which locks are watched.
	Up bool
	// Err is why the last poll failed; nil when Up.
	Err error
	// At is when the last poll ended, by this machine's clock. Zero before the first.
	At time.Time
	// ServerTime is the time of the last answered poll, by the server's clock. Zero before the first.
	ServerTime time.Time
	// Interval is the time from the start of the last poll to that of the next: PollInterval, or longer to keep to MaxDutyCycle.
	Interval time.Duration
	// Took is how long the last poll took. Where that is longer than Interval, it is the time between two polls.
	Took time.Duration
	// InRecovery is whether the server is a hot standby, as of the last answered poll.
	InRecovery bool
	// ServerLocks is the number of rows of pg_locks, as of the last answered poll.
	ServerLocks int64
	// LastSuccess is when the last answered poll ended, by this machine's clock. Zero before the first.
	LastSuccess time.Time
	// Failures counts the failed polls by reason; every reason is present.
	Failures map[Reason]uint64
	// PollDuration is how long polls took, answered or not, in seconds.
	PollDuration Histogram
	// Changes are the terms that this poll saw end, and then those that it saw begin, lock by lock. A term that ended has an End.
	Changes []Term
	// Locks has one state for each lock in each database that an answered poll has told of, in the order of Config.Locks and of
	// the databases' names.
	Locks []LockState
}

// Fresh reports whether s still says who holds the lock at the moment now: its poll was answered, and no more than three
// times the time between two polls ago.
func (s Snapshot) Fresh(now time.Time) bool {
	return s.Up && now.Sub(s.At) <= staleAfter*max(s.Interval, s.Took)
}

// LockState is one lock in one database.
type LockState struct {
	Datname string
	Lock    string // Lock.Name of the Config

	// Known is whether the last poll told of the database. When it did not, Holders, Waiters and Holder are zero and mean
	// nothing; the counters go on.
	Known    bool
	Expected bool    // the lock has ExpectedApplicationNames
	Holders  int     // sessions to which the lock is granted, in whatever mode
	Waiters  int     // rows that wait
	Holder   *Holder // the one exclusive holder; nil when nobody leads

	// Term is the one that goes on, as last seen: also while the lock is not known, since it may go on then. Nil when nobody
	// leads.
	Term *Term

	Terms           uint64        // terms seen, the one found at the start included
	Unheld          time.Duration // time seen without an exclusive holder
	MultipleHolders time.Duration // time seen with more than one session that has the lock
	Handover        Histogram     // from the end of a term to the start of the next, in seconds
}

// Holder is the backend that holds a lock exclusively.
type Holder struct {
	PID             uint32
	ApplicationName string
	Usename         string
	ClientAddr      string    // without mask; empty on a unix socket and where the role cannot see it
	BackendStart    time.Time // zero where the role cannot see it
	TermStart       time.Time // when the first poll of this term saw it, by the server's clock
	// HeartbeatAge is the time since the backend's last change between idle and active; negative where the role cannot see it.
	HeartbeatAge time.Duration
	// Foreign is whether the lock has ExpectedApplicationNames and ApplicationName matches none of them.
	Foreign bool
	// Visible is whether the role sees more than the pid (pg_read_all_stats, or the holder's own role). A backend that ended while the poll read
	// shows nothing to anybody: it is as it was before, and a new one is neither invisible nor Foreign.
	Visible bool
}

// Histogram counts observations by upper bound, in seconds, as Prometheus does.
type Histogram struct {
	Count   uint64
	Sum     float64
	Buckets map[float64]uint64 // cumulative
}

// newHistogram returns an empty histogram with the given upper bounds.
func newHistogram(bounds ...float64) Histogram {
	h := Histogram{Buckets: make(map[float64]uint64, len(bounds))}
	for _, bound := range bounds {
		h.Buckets[bound] = 0
	}
	return h
}

// with returns h and one more observation; h itself stays as it is, since snapshots share it.
func (h Histogram) with(d time.Duration) Histogram {
	seconds := d.Seconds()
	next := Histogram{Count: h.Count + 1, Sum: h.Sum + seconds, Buckets: make(map[float64]uint64, len(h.Buckets))}
	for bound, n := range h.Buckets {
		if seconds <= bound {
			n++
		}
		next.Buckets[bound] = n
	}
	return next
}
