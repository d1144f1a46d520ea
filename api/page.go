package api

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/plexsphere/leader-exporter/history"
)

//go:embed page.html static
var files embed.FS

// static serves what the status page needs.
func static() http.Handler {
	folder, err := fs.Sub(files, "static")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	return http.FileServerFS(folder)
}

// pagePolicy lets the page load what is served here, and nothing else.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// shownTerms is how many terms the table of a lock has.
const shownTerms = 10

// The locks of a page share what it reads of the history; each of them gets shownTerms and one read at the least.
const (
	pageTerms = 10_000
	pageReads = 20 // each looks at no more than 10,000 terms
)

// page is what the template shows.
type page struct {
	Version string
	Now     time.Time
	Range   string
	Ranges  []string
	Counts  []count
	Locks   []lockRow
	Error   string // why there are no terms
}

// count is how many locks have a verdict.
type count struct {
	Verdict Verdict
	Locks   int
}

// lockRow is one lock of the page.
type lockRow struct {
	Lock
	Terms []Term // newest first, no more than shownTerms
	Bars  []bar  // of all terms in the range, or of the newest
	Cut   bool   // there may be older terms in the range
}

// bar is a term on the timeline, in thousandths of its length.
type bar struct {
	X, Width float64
	Title    string
}

// ranges are the spans of the timeline, by the value of the parameter range.
func ranges() []string { return []string{"1h", "24h", "168h"} }

// statusPage shows who leads, since when, and the last terms.
func (h *handler) statusPage(w http.ResponseWriter, r *http.Request) {
	span, err := pageRange(r.URL.RawQuery)
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	var body bytes.Buffer
	if err := h.template.Execute(&body, h.page(r, span)); err != nil {
		h.cfg.Logger.ErrorContext(r.Context(), "the status page cannot be made", slog.Any("error", err))
		fail(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = body.WriteTo(w)
}

func pageRange(raw string) (time.Duration, error) {
	values, err := parse(raw, "range")
	if err != nil {
		return 0, err
	}
	text := cmp.Or(values.Get("range"), "24h")
	span, err := time.ParseDuration(text)
	if err != nil || span < time.Minute || span > 90*24*time.Hour {
		return 0, fmt.Errorf("parameter range: %q is no duration from 1m to 2160h", text)
	}
	return span, nil
}

// page gathers what is shown, from snapshots and from the history.
func (h *handler) page(r *http.Request, span time.Duration) page {
	now := time.Now()
	p := page{Version: h.cfg.Version, Now: now.UTC(), Range: shortDuration(span), Ranges: ranges()}
	targets := h.cfg.Targets()
	counts := make(map[Verdict]int)
	for _, target := range targets {
		for _, lock := range target.LocksOf(target.Source.Snapshot(), now) {
			counts[lock.Verdict]++
			p.Locks = append(p.Locks, lockRow{Lock: lock})
		}
	}
	present := presentTerms(targets)
	for i := range p.Locks {
		if err := h.readTerms(&p.Locks[i], present, len(p.Locks), now, span); err != nil {
			h.cfg.Logger.ErrorContext(r.Context(), "terms cannot be read", slog.Any("error", err))
			p.Error = "the history cannot be read; the log says why"
			break
		}
	}
	for _, verdict := range []Verdict{Held, Unheld, Multiple, Unknown} {
		p.Counts = append(p.Counts, count{verdict, counts[verdict]})
	}
	return p
}

// readTerms enters the terms of the span into the row, which is one of so many, newest first, as far as its share of what the page reads goes.
func (h *handler) readTerms(row *lockRow, present present, rows int, now time.Time, span time.Duration) error {
	most, reads := max(shownTerms, min(1000, pageTerms/rows)), max(1, pageReads/rows)
	query := history.Query{Target: row.Target, Datname: row.Datname, Lock: row.Lock.Lock, From: now.Add(-span)}
	for got := 0; ; {
		query.Limit = most - got
		read, err := h.cfg.History.Terms(query)
		if err != nil {
			return err
		}
		for _, entry := range read.Terms {
			row.add(present.termOf(entry), now, span)
		}
		got += len(read.Terms)
		reads--
		if query.Cursor = read.Next; query.Cursor == "" || got >= most || reads == 0 {
			row.Cut = query.Cursor != ""
			return nil
		}
	}
}

// add enters a term into the table, as long as that has room, and into the timeline.
func (l *lockRow) add(t Term, now time.Time, span time.Duration) {
	if len(l.Terms) < shownTerms {
		l.Terms = append(l.Terms, t)
	}
	begin := now.Add(-span)
	at := func(t time.Time) float64 { return min(1000, max(0, 1000*t.Sub(begin).Seconds()/span.Seconds())) }
	from, to := at(t.Start), at(t.LastSeen)
	l.Bars = append(l.Bars, bar{X: from, Width: max(to-from, 1), Title: fmt.Sprintf("backend %d %s, %s to %s", t.PID, valueOf(t.ApplicationName), clock(t.Start), endOf(t))})
}

// endOf says until when a term lasted.
func endOf(t Term) string {
	switch {
	case t.Ongoing:
		return "now, last seen " + clock(t.LastSeen)
	case t.End == nil:
		return "last seen " + clock(t.LastSeen) + ", end not known"
	case t.End.Sub(t.LastSeen) < 10*time.Second:
		return clock(*t.End)
	default:
		return "between " + clock(t.LastSeen) + " and " + clock(*t.End)
	}
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// shortDuration writes 24h0m0s as 24h.
func shortDuration(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return d.String()
}

// ago says how long ago something was, as coarse as a person would.
func ago(now, then time.Time) string {
	d := max(0, now.Sub(then))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
}

// seconds writes an age of some seconds.
func seconds(s float64) string { return fmt.Sprintf("%.1f s", s) }

// newPageTemplate reads the template, which is part of the program.
func newPageTemplate() *template.Template {
	return template.Must(template.New("page.html").Funcs(template.FuncMap{
		"ago": ago, "clock": clock, "endOf": endOf, "seconds": seconds, "text": valueOf[string], "number": valueOf[int],
	}).ParseFS(files, "page.html"))
}
