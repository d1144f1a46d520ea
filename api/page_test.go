package api_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/api"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// pageText is the status page without its tags.
func pageText(response *httptest.ResponseRecorder) string {
	plain := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(response.Body.String(), " ")
	return regexp.MustCompile(`\s+`).ReplaceAllString(plain, " ")
}

// The page says of each lock who leads and since when, or why that is not known, without JavaScript.
func TestStatusPageSaysWhoLeads(t *testing.T) {
	r := newRig(t, "held", "free", "shared", "down", "new")
	start := time.Now().Add(-25 * time.Hour)
	r.poll(t, "held", heldBy(7, "plexsphere-1", start, true))
	ended := heldBy(8, "psql", start.Add(24*time.Hour), true).Changes[0]
	ended.LastSeen = ended.Holder.TermStart.Add(10 * time.Minute)
	ended.End = ended.LastSeen.Add(time.Minute)
	r.poll(t, "free", free(ended))
	shared := free()
	shared.Locks[0].Holders = 3
	r.poll(t, "shared", shared)
	failed := free()
	failed.Err = errors.New("connection refused")
	r.poll(t, "down", failed)
	response := r.get("/")
	got := pageText(response)
	for _, want := range []string{
		"1 held 1 unheld 1 multiple 2 unknown",
		"held leader in db (1886156915/1) held by plexsphere-1 for 25 h 0 min, since " + start.UTC().Format("2006-01-02 15:04:05 UTC") + " ; 2 wait",
		"Last statement 1.5 s ago",
		"unheld nobody leads",
		"psql 8 " + ended.Holder.TermStart.UTC().Format("2006-01-02 15:04:05 UTC") + " between ",
		"multiple by 3 sessions",
		"unknown connection refused",
		"unknown the target was not polled yet",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
	for header, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
	} {
		if value := response.Header().Get(header); value != want {
			t.Errorf("%s: %q, want %q", header, value, want)
		}
	}
	if policy := response.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; ") || !strings.Contains(policy, "; frame-ancestors 'none'") ||
		strings.Contains(policy, "unsafe") {
		t.Errorf("Content-Security-Policy %q", policy)
	}
}

// Names that a client chose stay text.
func TestStatusPageEscapesNames(t *testing.T) {
	r := newRig(t, "one")
	r.poll(t, "one", heldBy(7, `<script>alert(1)</script>" onload="x`, time.Now(), true))
	if body := r.get("/").Body.String(); strings.Contains(body, "<script>alert") || strings.Contains(body, `" onload="x`) {
		t.Errorf("a name became markup:\n%s", body)
	}
}

// A bar is as long as its term, cut at both ends of the timeline; the range can be chosen.
func TestTimelineDrawsTermsToScale(t *testing.T) {
	r := newRig(t, "one")
	term := func(pid uint32, from, to time.Duration) {
		s := heldBy(pid, "a", time.Now().Add(-from), true)
		s.Changes[0].LastSeen, s.Changes[0].End = time.Now().Add(-to), time.Now().Add(-to)
		r.poll(t, "one", free(s.Changes...))
	}
	term(1, 48*time.Hour, 18*time.Hour)
	term(2, 12*time.Hour, 6*time.Hour)
	bars := func(path string) (bars [][]string) {
		t.Helper()
		for _, bar := range regexp.MustCompile(`class="term" x="([\d.]+)" y="2" width="([\d.]+)"`).FindAllStringSubmatch(r.get(path).Body.String(), -1) {
			bars = append(bars, []string{strings.Split(bar[1], ".")[0], strings.Split(bar[2], ".")[0]})
		}
		return bars
	}
	if got := bars("/"); len(got) != 2 || got[0][0] != "499" && got[0][0] != "500" || got[0][1] != "250" && got[0][1] != "249" || got[1][0] != "0" ||
		got[1][1] != "250" && got[1][1] != "249" {
		t.Errorf("24 hours: bars at %q, want a quarter from the middle on, and a quarter from the beginning on", got)
	}
	if got := bars("/?range=1h"); len(got) != 0 {
		t.Errorf("one hour: bars at %q, want none", got)
	}
	if got := bars("/?range=168h"); len(got) != 2 || got[1][0] != "714" {
		t.Errorf("a week: bars at %q, want the second from 5/7 on", got)
	}
	for _, wrong := range []string{"1s", "yesterday", "9999h", "-1h"} {
		if response := r.get("/?range=" + wrong); response.Code != http.StatusBadRequest || !strings.Contains(response.Body.String(), "parameter range") {
			t.Errorf("range %s: %d", wrong, response.Code)
		}
	}
}

// Other paths and methods are refused, what the page loads is there.
func TestPathsThatAreThere(t *testing.T) {
	r := newRig(t)
	for path, want := range map[string]string{"/static/status.css": "text/css; charset=utf-8", "/static/status.js": "text/javascript; charset=utf-8"} {
		if response := r.get(path); response.Code != http.StatusOK || response.Header().Get("Content-Type") != want {
			t.Errorf("%s: %d, %q", path, response.Code, response.Header().Get("Content-Type"))
		}
	}
	if !strings.Contains(pageText(r.get("/")), "No lock is watched.") {
		t.Error("a page without targets does not say so")
	}
	for _, path := range []string{"/nothing", "/static/nothing.js", "/page.html"} {
		if response := r.get(path); response.Code != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", path, response.Code)
		}
	}
	for path, status := range map[string]int{"/api/v2/locks": http.StatusNotFound, "/api/": http.StatusNotFound, "/api/v1/locks": http.StatusMethodNotAllowed, "/api/v1/events": http.StatusMethodNotAllowed} {
		recorder := httptest.NewRecorder()
		r.handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, path, nil))
		var problem api.Problem
		if err := json.Unmarshal(recorder.Body.Bytes(), &problem); err != nil || problem.Error == "" || recorder.Code != status {
			t.Errorf("POST %s: %d %s, want %d and a problem", path, recorder.Code, recorder.Body, status)
		}
		if allow := recorder.Header().Get("Allow"); (status == http.StatusMethodNotAllowed) != (allow == "GET, HEAD") {
			t.Errorf("POST %s: Allow %q", path, allow)
		}
	}
	if got := r.get("/api/v1/terms?from=2026-12-01T00:00:00Z&to=%zz&lock=a").Body.String(); !strings.Contains(got, `query: \"to=%zz\": invalid URL escape`) {
		t.Errorf("a malformed query: %s", got)
	}
	recorder := httptest.NewRecorder()
	r.handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodHead, "/api/v1/events", nil)) // and is not held
	if recorder.Code != http.StatusOK || recorder.Header().Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD of events: %d %q", recorder.Code, recorder.Header())
	}
}

// A lock with many terms takes nothing from the timelines of others, and says that older ones are left out.
func TestTimelinesOfQuietLocksStayWhole(t *testing.T) {
	r := newRig(t, "quiet", "busy")
	term := heldBy(1, "quiet-one", time.Now().Add(-2*time.Hour), true).Changes[0]
	term.LastSeen, term.End = term.Holder.TermStart, term.Holder.TermStart.Add(time.Second)
	r.poll(t, "quiet", free(term))
	term.Holder.ApplicationName = "busy-one"
	var many []lockwatch.Term
	for i := range 10_500 { // more than one read looks at
		term.Holder.TermStart = time.Now().Add(-time.Hour + time.Duration(i)*time.Millisecond)
		term.LastSeen, term.End = term.Holder.TermStart, term.Holder.TermStart.Add(time.Microsecond)
		many = append(many, term)
	}
	r.poll(t, "busy", free(many...))
	quiet, busy, _ := strings.Cut(pageText(r.get("/")), "busy leader in db")
	const cut = "Older terms of this lock are left out"
	if !strings.Contains(quiet, "backend 1 quiet-one") || strings.Contains(quiet, cut) {
		t.Errorf("the quiet lock: %s", quiet)
	}
	if got := strings.Count(busy, "backend 1 busy-one"); got != 1000 || !strings.Contains(busy, cut) {
		t.Errorf("the busy lock has %d bars, want 1000, and that there are more", got)
	}
}
