package main

import (
	"bytes"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// maxPageAge is how old a page of metrics may be that is served again. It bounds how late a scrape tells that polls have stopped to
	// come, and how old the metrics of the process are.
	maxPageAge = 100 * time.Millisecond
	// maxPages bounds the pages kept: scrapers that ask for other formats, compressions, or names get others.
	maxPages = 8
	// mostPlain is up to how many locks, each counted in each of its databases, a page of metrics is sent as it is. Compressing the 12 KB of one,
	// and reading that, takes longer than sending them; each further one brings some 3 KB.
	mostPlain = 20
)

// newMetrics makes pages of metrics, in the form for which the request asks.
func newMetrics(process *prometheus.Registry, fleet *fleet, logger *slog.Logger) http.Handler {
	opts := promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(logger.Handler(), slog.LevelError),
		ErrorHandling:       promhttp.ContinueOnError,
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: 40,
		Registry:            process,
	}
	all := prometheus.Gatherers{process, fleet}
	compressed := promhttp.HandlerFor(all, opts)
	opts.DisableCompression = true
	plain := promhttp.HandlerFor(all, opts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		locks := 0
		for _, t := range fleet.targets() {
			locks += max(1, len(t.Source.Snapshot().Locks)) // one that was never reached has metrics too
		}
		if locks <= mostPlain {
			plain.ServeHTTP(w, r)
		} else {
			compressed.ServeHTTP(w, r)
		}
	})
}

// scrapes serves a page of metrics again to whoever asks in the same way before anything has changed: gathering, encoding, and compressing
// it costs several times what it costs to send, and a scrape seldom comes alone, since every deployment of Prometheus has a twin.
type scrapes struct {
	handler http.Handler
	// generation changes with everything that the exporter knows.
	generation func() uint64

	mu    sync.Mutex
	pages map[string]*keptPage
}

// keptPage is the last page made for one way to ask. Whoever finds it outdated makes the next one, and others wait for that one.
type keptPage struct {
	turn       chan struct{} // holds one token, of whoever uses the fields below
	made       time.Time     // the begin of the making
	generation uint64        // then
	page       exposition
}

func (s *scrapes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.kept(r).fresh(s, r).send(w)
}

// kept returns where the page is kept that r asks for.
func (s *scrapes) kept(r *http.Request) *keptPage {
	way := r.URL.RawQuery + "\n" + r.Header.Get("Accept") + "\n" + r.Header.Get("Accept-Encoding")
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.pages[way]; k != nil {
		return k
	}
	if s.pages == nil || len(s.pages) == maxPages {
		s.pages = make(map[string]*keptPage)
	}
	k := &keptPage{turn: make(chan struct{}, 1)}
	s.pages[way] = k
	return k
}

// fresh returns the page, or makes the next one where it is outdated.
func (k *keptPage) fresh(s *scrapes, r *http.Request) exposition {
	k.turn <- struct{}{} // not for long: a page is made without waiting for anything
	defer func() { <-k.turn }()
	generation := s.generation()
	if k.page.code != 0 && k.generation == generation && time.Since(k.made) <= maxPageAge {
		return k.page
	}
	made := exposition{header: make(http.Header)}
	k.made, k.generation = time.Now(), generation
	s.handler.ServeHTTP(&made, r)
	k.page = made
	return made
}

// exposition is an answer that is written into memory. It is not changed once it is complete.
type exposition struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (e *exposition) Header() http.Header { return e.header }

// WriteHeader implements http.ResponseWriter.
func (e *exposition) WriteHeader(code int) {
	if e.code == 0 {
		e.code = code
	}
}

// Write implements http.ResponseWriter.
func (e *exposition) Write(b []byte) (int, error) {
	e.WriteHeader(http.StatusOK)
	return e.body.Write(b)
}

// send writes the page to a client, which may take its time.
func (e exposition) send(w http.ResponseWriter) {
	for name, values := range e.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(e.body.Len()))
	w.WriteHeader(e.code)
	_, _ = w.Write(e.body.Bytes())
}
