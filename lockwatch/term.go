package lockwatch

import "time"

// Term is the time through which one backend held a lock exclusively, as polls saw it. All moments are of the server's clock.
type Term struct {
	Datname, Lock string
	Holder        Holder    // as last seen; Holder.TermStart is when the first poll saw it
	After         time.Time // the last poll that did not show it yet: it began after that. Zero when there was none
	LastSeen      time.Time // the last poll that showed it
	End           time.Time // the first answered poll that showed it no more: it ended between LastSeen and this. Zero while it goes on
}
