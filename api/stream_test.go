package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// serveHTTP2 serves the rig's handler by HTTP/2 over TLS, with the timeouts of the exporter's server.
func (r *rig) serveHTTP2(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(r.handler)
	server.EnableHTTP2 = true
	server.Config.ReadTimeout, server.Config.WriteTimeout = 10*time.Second, 30*time.Second
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(r.events.Close)
	return server
}

// A stream outlasts the time that a reader may take to receive: HTTP/2 ends a stream at its deadline, whether or not something is under way.
func TestEventsOutlastTheWriteDeadline(t *testing.T) {
	r := newRig(t, "one")
	r.events.SetTimeouts(50*time.Millisecond, 250*time.Millisecond)
	server := r.serveHTTP2(t)
	s := connectBy(t, server.Client(), server.URL, "", "")
	if s.response.ProtoMajor != 2 {
		t.Fatalf("the protocol is %s", s.response.Proto)
	}
	s.require(t, "reset", "lock one unknown")
	for range 2 { // signs of life come only after the deadline
		if !s.lines.Scan() || s.lines.Text() != ": nothing new" || !s.lines.Scan() {
			t.Fatalf("%q, %v; want a sign of life", s.lines.Text(), s.lines.Err())
		}
	}
	r.poll(t, "one", free())
	s.require(t, "lock one unheld")
}

// A reader that takes nothing is disconnected, and the log says so, by HTTP/2 too.
func TestEventsGiveUpOnAStuckReaderOfHTTP2(t *testing.T) {
	r := newRig(t, "one")
	r.events.SetTimeouts(100*time.Millisecond, time.Hour)
	server := r.serveHTTP2(t)
	s := connectBy(t, server.Client(), server.URL, "", "")
	s.require(t, "reset", "lock one unknown")
	for i := range uint32(1000) { // 20 MB, of which the client takes 4 unasked
		r.poll(t, "one", heldBy(1+i, strings.Repeat("x", 20_000), time.Now(), false))
	}
	pgtest.Eventually(t, time.Minute, "the stuck reader is disconnected", func() (bool, string) {
		return len(r.logs.With("WARN a reader of events does not keep up and was disconnected reader=127.0.0.1:")) == 1, strings.Join(r.logs.With(""), "\n")
	})
}

// One poll may bring more changes than anybody can read meanwhile, and every reader that keeps on gets all of them, in their order.
func TestBurstDropsNoReader(t *testing.T) {
	r := newRig(t, "one")
	base := r.serve(t)
	var readers []*stream
	for range 20 {
		s := connect(t, base, "", "")
		s.require(t, "reset", "lock one unknown")
		readers = append(readers, s)
	}
	burst := free()
	for pid := range uint32(3000) {
		burst.Changes = append(burst.Changes, heldBy(1+pid, "plexsphere", time.Now(), true).Changes...)
	}
	r.poll(t, "one", burst)
	for _, s := range readers {
		for pid := range uint32(3000) {
			if m, ok := s.next(t); !ok || m.data["pid"] != float64(1+pid) {
				t.Fatalf("event %v (%v), want that of backend %d", m, ok, 1+pid)
			}
		}
		s.require(t, "lock one unheld")
	}
}

// A reader that comes back and has missed nothing is answered at once, not with the next sign of life: its connection counts as open only then.
func TestEventsAnswerAReaderThatHasMissedNothing(t *testing.T) {
	r := newRig(t, "one")
	r.events.SetTimeouts(time.Minute, time.Hour)
	base := r.serve(t)
	id := connect(t, base, "", "").require(t, "reset", "lock one unknown")
	again := connectBy(t, &http.Client{Transport: &http.Transport{ResponseHeaderTimeout: 20 * time.Second}}, base, "", id)
	if again.response.StatusCode != http.StatusOK {
		t.Errorf("status %s", again.response.Status)
	}
	r.poll(t, "one", free())
	again.require(t, "lock one unheld")
}
