package api

import (
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
	End          *time.Time `json:"end,omitempty"`           // the first answered poll that did not; none while it goes on
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

// TermsOf turns a page of the history into an answer.
func TermsOf(page history.Page) TermsAnswer {
	answer := TermsAnswer{Terms: []Term{}, Next: page.Next}
	for _, entry := range page.Terms {
		answer.Terms = append(answer.Terms, termOf(entry))
	}
	return answer
}

// ongoing are the terms that the targets' last polls showed, by which the history, which is behind, is brought up to date.
type ongoing map[ongoingKey]lockwatch.Term

type ongoingKey struct {
	target, datname, lock string
	pid                   uint32
	start                 int64
}

func ongoingOf(targets []Target) ongoing {
	terms := make(ongoing)
	for _, target := range targets {
		for _, lock := range target.Source.Snapshot().Locks {
			if lock.Term != nil {
				terms[keyOf(target.Name, *lock.Term)] = *lock.Term
			}
		}
	}
	return terms
}

func keyOf(target string, t lockwatch.Term) ongoingKey {
	return ongoingKey{target, t.Datname, t.Lock, t.Holder.PID, t.Holder.TermStart.UnixNano()}
}

// refresh returns the term as it was last seen, where that is later than what the history has of it.
func (o ongoing) refresh(e history.Entry) history.Entry {
	if live, ok := o[keyOf(e.Target, e.Term)]; ok && e.End.IsZero() && live.LastSeen.After(e.LastSeen) {
		e.Term = live
	}
	return e
}
