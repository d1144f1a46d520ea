package api

import (
	"slices"
	"time"

	"github.com/plexsphere/leader-exporter/history"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// Term is the time through which one backend held a lock exclusively, as polls saw it, by the server's clock. What is not known
// is left out.
type Term struct {
	Target          string     `json:"target"`
	Datname         string     `json:"datname"`
	Lock            string     `json:"lock"`
	PID             uint32     `json:"pid"`
	Visible         bool       `json:"visible"` // as those of Holder
	ApplicationName *string    `json:"application_name,omitempty"`
	Usename         *string    `json:"usename,omitempty"`
	ClientAddr      *string    `json:"client_addr,omitempty"`
	BackendStart    *time.Time `json:"backend_start,omitempty"`

	StartedAfter *time.Time `json:"started_after,omitempty"` // the last poll that did not show it yet
	Start        time.Time  `json:"start"`                   // the first poll that showed it
	LastSeen     time.Time  `json:"last_seen"`               // the last poll that showed it
	End          *time.Time `json:"end,omitempty"`           // the first answered poll that did not; nil while it goes on, and when nobody has seen it end
	Ongoing      bool       `json:"ongoing"`                 // it is the present term of a watched lock, as of the last poll that told of it
}

func termOf(e history.Entry) Term {
	return Term{
		Target: e.Target, Datname: e.Datname, Lock: e.Lock,
		PID: e.Holder.PID, Visible: e.Holder.Visible, ApplicationName: seen(e.Holder, e.Holder.ApplicationName),
		Usename: seen(e.Holder, e.Holder.Usename), ClientAddr: seen(e.Holder, e.Holder.ClientAddr),
		BackendStart: known(e.Holder.BackendStart),
		StartedAfter: known(e.After), Start: e.Holder.TermStart.UTC(), LastSeen: e.LastSeen.UTC(), End: known(e.End),
	}
}

// TermsOf turns a page of the history into an answer, with what the last polls of the targets know of its terms. Without targets, none of the terms
// is known to go on.
func TermsOf(page history.Page, targets []Target) TermsAnswer {
	present := presentTerms(targets)
	answer := TermsAnswer{Terms: []Term{}, Next: page.Next}
	for _, entry := range page.Terms {
		answer.Terms = append(answer.Terms, present.termOf(entry))
	}
	return answer
}

// present are the terms of watched locks that the targets' last polls know to go on.
type present map[presentKey]struct{}

type presentKey struct {
	target, datname, lock string
	pid                   uint32
	start                 int64
}

func presentTerms(targets []Target) present {
	terms := make(present)
	for _, target := range targets {
		terms.add(target, target.Source.Snapshot())
	}
	return terms
}

// add adds the terms that the snapshot of the target has of its locks.
func (p present) add(target Target, s lockwatch.Snapshot) {
	for _, state := range s.Locks {
		watched := slices.ContainsFunc(target.Locks, func(lock lockwatch.Lock) bool { return lock.Name == state.Lock })
		if watched && state.Term != nil {
			p[keyOf(target.Name, *state.Term)] = struct{}{}
		}
	}
}

func keyOf(target string, t lockwatch.Term) presentKey {
	return presentKey{target, t.Datname, t.Lock, t.Holder.PID, t.Holder.TermStart.UnixNano()}
}

// termOf returns the term, with whether it goes on.
func (p present) termOf(e history.Entry) Term {
	term := termOf(e)
	_, present := p[keyOf(e.Target, e.Term)]
	term.Ongoing = present && e.End.IsZero()
	return term
}
