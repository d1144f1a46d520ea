package exporter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/exporter"
)

// clientOf returns a client of a server that the handler answers for.
func clientOf(t *testing.T, handler http.HandlerFunc) *exporter.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client, err := exporter.New(server.URL, &http.Client{}, &http.Client{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

func TestNewRefusesWhatIsNoAddress(t *testing.T) {
	for _, address := range []string{"", "  ", "exporter:18861", "ftp://exporter", "http://", "http://[::1", "/only/a/path"} {
		if _, err := exporter.New(address, nil, nil); !errors.Is(err, exporter.ErrNoAddress) {
			t.Errorf("New(%q) returns %v; want ErrNoAddress", address, err)
		}
	}
	if _, err := exporter.New("https://user:se$cret@proxy/prefix/", nil, nil); err != nil {
		t.Error(err)
	}
}

func TestClientKeepsThePathOfTheAddress(t *testing.T) {
	var asked atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.URL.Path)
		answer(w, exporter.Locks{})
	}))
	defer server.Close()
	for _, suffix := range []string{"/leader", "/leader/"} {
		client, err := exporter.New(server.URL+suffix, server.Client(), server.Client())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Locks(t.Context(), exporter.Filter{}); err != nil {
			t.Fatal(err)
		}
		if got := asked.Load(); got != "/leader/api/v1/locks" {
			t.Errorf("asked for %v", got)
		}
	}
}

// roundTrip is a transport without a network, for a bubble.
type roundTrip func(*http.Request) *http.Response

func (r roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return r(request), nil }

func TestEqualRequestsOfTheSameTimeAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int32
		release := make(chan struct{})
		client, err := exporter.New("http://exporter", &http.Client{Transport: roundTrip(func(*http.Request) *http.Response {
			requests.Add(1)
			<-release
			recorder := httptest.NewRecorder()
			answer(recorder, exporter.Locks{Locks: []exporter.Lock{{Target: "a", Lock: "l"}}})
			return recorder.Result()
		})}, nil)
		if err != nil {
			t.Fatal(err)
		}
		given, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				ctx := t.Context()
				if i == 0 {
					ctx = given // whoever gives up does not take the answer from the others
				}
				got, err := client.Locks(ctx, exporter.Filter{})
				if gaveUp := errors.Is(err, context.Canceled); gaveUp != (i == 0) || (!gaveUp && (err != nil || len(got.Locks) != 1)) {
					t.Errorf("call %d got %v, %v", i, got, err)
				}
			})
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(release)
		all.Wait()
		if n := requests.Load(); n != 1 {
			t.Errorf("20 equal calls made %d requests", n)
		}
	})
}

func TestRequestsOfOneDataSourceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Int32
		release := make(chan struct{})
		client, err := exporter.New("http://exporter", &http.Client{Transport: roundTrip(func(*http.Request) *http.Response {
			now.Add(1)
			<-release
			recorder := httptest.NewRecorder()
			answer(recorder, exporter.Locks{})
			return recorder.Result()
		})}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				if _, err := client.Locks(t.Context(), exporter.Filter{Locks: []string{strconv.Itoa(i)}}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := now.Load(); n != 8 {
			t.Errorf("%d of 40 requests are under way; want 8", n)
		}
		close(release)
		all.Wait()
		if n := now.Load(); n != 40 {
			t.Errorf("%d of 40 requests were made", n)
		}
	})
}

func TestSeveralNamesAreChosenHere(t *testing.T) {
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.RawQuery; got != "lock=l" {
			t.Errorf("the query is %q; want the one name alone", got)
		}
		answer(w, exporter.Locks{
			Locks:   []exporter.Lock{{Target: "a", Lock: "l"}, {Target: "b", Lock: "l"}, {Target: "c", Lock: "l"}},
			Targets: []exporter.Target{{Target: "a"}, {Target: "c"}},
		})
	})
	got, err := client.Locks(t.Context(), exporter.Filter{Targets: []string{"a", "b"}, Locks: []string{"l"}})
	if err != nil || len(got.Locks) != 2 || len(got.Targets) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// pages serves n terms in pages, and counts the requests.
func pages(n int, requests *atomic.Int32) http.HandlerFunc {
	begin := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	return func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		query := r.URL.Query()
		first, _ := strconv.Atoi(query.Get("cursor"))
		limit, _ := strconv.Atoi(query.Get("limit"))
		page := struct {
			Terms []exporter.Term `json:"terms"`
			Next  string          `json:"next,omitempty"`
		}{Terms: []exporter.Term{}}
		for i := first; i < min(n, first+limit); i++ {
			page.Terms = append(page.Terms, exporter.Term{Target: "a", Datname: "d", Lock: "l", PID: int64(i), Start: begin.Add(-time.Duration(i) * time.Minute)})
		}
		if first+limit < n {
			page.Next = strconv.Itoa(first + limit)
		}
		answer(w, page)
	}
}

func TestTermsFollowsPagesUpToItsLimit(t *testing.T) {
	for _, c := range []struct {
		has, limit, want int
		cut              bool
		requests         int32
	}{
		{has: 0, limit: 100, want: 0, requests: 1},
		{has: 100, limit: 100, want: 100, requests: 1},
		{has: 101, limit: 100, want: 100, cut: true, requests: 1},
		{has: 2500, limit: 5000, want: 2500, requests: 3},
		{has: 100_000, limit: 1_000_000, want: exporter.MaxTerms, cut: true, requests: 11},
	} {
		var requests atomic.Int32
		client := clientOf(t, pages(c.has, &requests))
		got, cut, err := client.Terms(t.Context(), exporter.Filter{}, time.Unix(0, 0), time.Unix(1<<33, 0), c.limit)
		if err != nil || len(got) != c.want || cut != c.cut || requests.Load() != c.requests {
			t.Errorf("of %d with limit %d: %d terms, cut %v, %d requests, %v; want %+v", c.has, c.limit, len(got), cut, requests.Load(), err, c)
		}
		for i, term := range got {
			if term.PID != int64(i) {
				t.Fatalf("term %d is number %d: one is missing or twice", i, term.PID)
			}
		}
	}
}

func TestTermsGivesUpOnAnExporterWhosePagesNeverEnd(t *testing.T) {
	var requests atomic.Int32
	client := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		answer(w, map[string]any{"terms": []any{}, "next": "again"})
	})
	if _, cut, err := client.Terms(t.Context(), exporter.Filter{}, time.Time{}, time.Now(), 10); err != nil || !cut || requests.Load() > 40 {
		t.Errorf("cut %v, %v after %d requests", cut, err, requests.Load())
	}
}

func TestErrorsSayWhatAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"a problem": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(503)
			_, _ = w.Write([]byte(`{"error":"busy now"}`))
		}, "503 Service Unavailable: busy now"},
		"a page": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, `no JSON but "text/html"`},
		"broken JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"locks":`))
		}, "no JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := clientOf(t, c.handler).Locks(t.Context(), exporter.Filter{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want %q in it", err, c.want)
			}
		})
	}
}

func TestEventsReadsAStreamAndSaysWhyItEnds(t *testing.T) {
	const text = ": nothing new\n\nid: e-1\nevent: reset\ndata: {}\n\nid: e-2\nevent: lock\ndata: {\"target\":\"a\",\"lock\":\"l\"}\n\n" +
		"id: e-3\nevent: lock\ndata: {\"target\":\"other\"}\n\nid: e-4\nevent: term\ndata: {\"target\":\"b\"}\n\nid: e-5\nevent: lock\n"
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-ID") != "e-0" {
			t.Errorf("headers are %v", r.Header)
		}
		fmt.Fprint(w, text)
	})
	var got []string
	err := client.Events(t.Context(), exporter.Filter{Targets: []string{"a", "b"}}, "e-0", func(e exporter.Event) error {
		got = append(got, e.ID+" "+e.Name)
		return nil
	})
	if want := []string{" connected", "e-1 reset", "e-2 lock", "e-4 term"}; !slices.Equal(got, want) || err == nil {
		t.Errorf("got %q, %v; want %q and an error", got, err, want)
	}
	stop := errors.New("stop")
	if err := client.Events(t.Context(), exporter.Filter{}, "e-0", func(exporter.Event) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v; want what the caller returned", err)
	}
}

func TestEventsEndsWithItsContext(t *testing.T) {
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := client.Events(ctx, exporter.Filter{}, "", func(exporter.Event) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
