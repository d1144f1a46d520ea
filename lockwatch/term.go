package lockwatch

import (
	"time"

	"github.com/plexsphere/leader-exporter/lockkey"
)

// Term is the time through which one backend held a lock exclusively, as polls saw it. All moments are of the server's clock. A
// poll takes a moment itself, so that these are bounds: the term began between After and Holder.TermStart, and ended between
// LastSeen and End, and they are in that order even where the clock was set back. One that a single poll saw may have ended before its LastSeen, by less than that poll took.
type Term struct {
	Datname, Lock string
	Key           lockkey.Key // of the lock, which may have another one under that name today. Zero: not known
	Server        Server      // that the backend was of
	Holder        Holder      // as last seen; Holder.TermStart is the end of the first poll that saw it
	After         time.Time   // the begin of the last poll that did not show it yet. Zero when there was none, or the clock was set back since
	LastSeen      time.Time   // the begin of the last poll that showed it, or Holder.TermStart, whichever is later
	End           time.Time   // the end of the first answered poll that showed it no more. Zero while it goes on, and where nobody sees its end
}

// Server names one run of the server of one cluster.
type Server struct {
	// SystemIdentifier is the cluster's, of pg_control_system(): initdb made it, and standbys and copies of the files share it. Zero
	// where the role may not read it.
	SystemIdentifier int64
	// Started is pg_postmaster_start_time().
	Started time.Time
}

// isAnother reports whether the two are known to be of different clusters.
func (s Server) isAnother(o Server) bool {
	return s.SystemIdentifier != 0 && o.SystemIdentifier != 0 && s.SystemIdentifier != o.SystemIdentifier
}

// isElsewhere reports whether polls of this lock on this server see nothing of the term, not even its end.
func (t *Term) isElsewhere(key lockkey.Key, server Server) bool {
	return !t.Key.IsZero() && t.Key != key || t.Server.isAnother(server)
}

// goesOn reports whether the term is that of the holder on this server. A pid is used again after a restart of the server, so where the
// server's start was not kept it takes the backend's.
func (t *Term) goesOn(holder *Holder, server Server) bool {
	if !sameBackend(&t.Holder, holder) {
		return false
	}
	if t.Server.Started.IsZero() && !server.Started.IsZero() {
		return !t.Holder.BackendStart.IsZero() && !holder.BackendStart.IsZero()
	}
	return t.Server.Started.Equal(server.Started)
}

// sameBackend reports whether two sights are of one backend: a pid is used again, a pid with its start is not.
func sameBackend(a, b *Holder) bool {
	startsKnown := !a.BackendStart.IsZero() && !b.BackendStart.IsZero()
	return a.PID == b.PID && (!startsKnown || a.BackendStart.Equal(b.BackendStart))
}
