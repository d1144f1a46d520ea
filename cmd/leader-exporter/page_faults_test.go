package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// The page lives on after the exporter has refused its stream or a load, says what is so, and misses no event, however they come.
func TestStatusPageOutlivesRefusals(t *testing.T) {
	db := pgtest.Database(t)
	t.Setenv("LEADER_EXPORTER_DSN", db.DSN)
	ctx, stopExporter := context.WithCancel(context.Background())
	defer stopExporter()
	address, err := url.Parse(startExporterUntil(t, ctx).url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(address)
	proxy.FlushInterval = -1
	var refuseStream, refusePage atomic.Bool
	var loads atomic.Int64
	events := make(chan struct{}) // passed on to the page's own stream
	held := make(chan chan struct{})
	var hold atomic.Bool
	refuseStream.Store(true)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api/v1/events" && refuseStream.Load(), r.URL.Path == "/" && refusePage.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/api/v1/events":
			w.Header().Set("Content-Type", "text/event-stream")
			for {
				fmt.Fprint(w, "event: lock\ndata: {}\n\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-events:
				case <-r.Context().Done():
					return
				}
			}
		case r.URL.Path == "/" && hold.CompareAndSwap(true, false):
			release := make(chan struct{})
			held <- release
			<-release
			fallthrough
		default:
			if r.URL.Path == "/" {
				loads.Add(1)
			}
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	b := startBrowser(t)
	b.open(t, server.URL+"/")
	b.awaitText(t, "#connection", "interrupted")
	refuseStream.Store(false)
	b.awaitText(t, "#connection", "Live")

	refusePage.Store(true)
	events <- struct{}{}
	b.awaitText(t, "#connection", "does not answer")
	refusePage.Store(false)
	b.awaitText(t, "#connection", "Live")

	// From here on events alone load the page.
	eval[bool](t, b, `(() => { const real = setTimeout; window.setTimeout = (f, ms) => ms >= 10000 ? 0 : real(f, ms); return true; })()`)
	hold.Store(true)
	events <- struct{}{}
	release := <-held
	before := loads.Load()
	events <- struct{}{}
	events <- struct{}{} // the one before is written
	close(release)
	pgtest.Eventually(t, patience, "an event during a load causes another", func() (bool, string) {
		return loads.Load() >= before+2, fmt.Sprint(loads.Load() - before)
	})

	before = loads.Load()
	pgtest.Eventually(t, patience, "events without an end put no load off", func() (bool, string) {
		select {
		case events <- struct{}{}:
		default:
		}
		return loads.Load() >= before+2, fmt.Sprint(loads.Load() - before)
	})
}
