package lockwatch

import "time"

// Term is the time through which one backend held a lock exclusively, as polls saw it. All moments are of the server's clock. A
// poll takes a moment itself, so that these are bounds: the term began between After and Holder.TermStart, and ended between
// LastSeen and End. One that a single poll saw may have ended before its LastSeen, by less than that poll took.
type Term struct {
	Datname, Lock string
	Holder        Holder    // as last seen; Holder.TermStart is the end of the first poll that saw it
	After         time.Time // the begin of the last poll that did not show it yet. Zero when there was none
	LastSeen      time.Time // the begin of the last poll that showed it, or Holder.TermStart, whichever is later
	End           time.Time // the end of the first answered poll that showed it no more. Zero while it goes on
}
