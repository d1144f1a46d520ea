package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/api"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// eventStream reads the data of events, by name, until it ends.
func eventStream(t *testing.T, base string) (events <-chan [2]string, done <-chan struct{}) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request) //nolint:bodyclose // the goroutine below closes it
	if err != nil {
		t.Fatal(err)
	}
	queue, ended := make(chan [2]string, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		defer response.Body.Close()
		lines, name := bufio.NewScanner(response.Body), ""
		for lines.Scan() {
			switch field, value, _ := strings.Cut(lines.Text(), ": "); field {
			case "event":
				name = value
			case "data":
				queue <- [2]string{name, value}
			}
		}
	}()
	return queue, ended
}

// awaitEvent waits for an event of that name whose data holds the text.
func awaitEvent(t *testing.T, events <-chan [2]string, name, text string) {
	t.Helper()
	var seen [][2]string
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		select {
		case event := <-events:
			if seen = append(seen, event); event[0] == name && strings.Contains(event[1], text) {
				return
			}
		case <-deadline.C:
			t.Fatalf("no event %s with %s; there were %q", name, text, seen)
		}
	}
}

// terms asks for the terms that the query selects.
func (e *exporter) terms(t *testing.T, query string) []api.Term {
	t.Helper()
	body, err := get(t.Context(), e.url+"/api/v1/terms"+query)
	if err != nil {
		t.Fatal(err)
	}
	var answer api.TermsAnswer
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Terms
}

// Events of a real database arrive, a target that is changed goes on with its term, one that is removed is taken leave of, and
// a stream does not keep the exporter from stopping.
func TestEventsFollowDatabaseAndConfiguration(t *testing.T) {
	db, other := pgtest.Database(t), pgtest.Database(t)
	const both = "targets:\n  - {name: one, dsn: '%s', labels: {tier: %s}}\n  - {name: two, dsn: '%s'}\n"
	file := newTestFile(t, fmt.Sprintf(both, db.DSN, "a", other.DSN))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	e := startExporterUntil(t, ctx, "--config.file="+string(file), "--web.enable-lifecycle")
	events, ended := eventStream(t, e.url)
	awaitEvent(t, events, "lock", `"target":"one","labels":{"tier":"a"},"datname":"`)

	holder := hold(t, db.DSN)
	awaitEvent(t, events, "term", `"target":"one"`)
	awaitEvent(t, events, "lock", `"verdict":"held"`)
	begun := e.terms(t, "?target=one")

	file.write(t, fmt.Sprintf(both, db.DSN, "b", other.DSN))
	if status, body := e.reload(t); status != http.StatusOK {
		t.Fatal(status, body)
	}
	pgtest.Eventually(t, patience, "the term is seen by the new watcher", func() (bool, string) {
		now := e.terms(t, "?target=one")
		return len(now) == 1 && now[0].Start.Equal(begun[0].Start) && now[0].LastSeen.After(begun[0].LastSeen.Add(200*time.Millisecond)), fmt.Sprintf("%+v", now)
	})
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_unlock(1886156915, 1)"); err != nil {
		t.Fatal(err)
	}
	awaitEvent(t, events, "term", `"end":"`)

	file.write(t, fmt.Sprintf("targets: [{name: one, dsn: '%s'}]\n", db.DSN))
	if status, body := e.reload(t); status != http.StatusOK {
		t.Fatal(status, body)
	}
	awaitEvent(t, events, "removed", `{"target":"two"}`)
	begin := time.Now()
	stop()
	<-ended
	if took := time.Since(begin); took > stopTimeout {
		t.Errorf("the stream ended after %v, not before the stop cuts requests off", took)
	}
}
