package api_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/plexsphere/leader-exporter/api"
	"github.com/plexsphere/leader-exporter/history"
	"github.com/plexsphere/leader-exporter/internal/logtest"
)

// stuckHistory answers when it is told to, and then with an error that names the file.
type stuckHistory struct {
	asked  chan struct{}
	answer chan struct{}
}

func (h stuckHistory) Terms(history.Query) (history.Page, error) {
	h.asked <- struct{}{}
	<-h.answer
	return history.Page{}, errors.New("/var/lib/secret/history: input/output error")
}

// Requests beyond the limit are refused at once, and a history that cannot be read is told of in the log, not to the reader.
func TestRequestsAtOnceAreLimited(t *testing.T) {
	stuck := stuckHistory{make(chan struct{}), make(chan struct{})}
	logs := &logtest.Lines{}
	handler := api.New(api.Config{
		Targets: func() []api.Target { return nil }, History: stuck, Events: api.NewEvents(slog.New(logs)), Logger: slog.New(logs),
	})
	get := func(path string) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		return recorder
	}
	const most = 40
	var asking sync.WaitGroup
	for range most {
		asking.Go(func() {
			got := get("/api/v1/terms")
			if body := got.Body.String(); got.Code != http.StatusInternalServerError || strings.Contains(body, "/var/lib") {
				t.Errorf("%d %s", got.Code, body)
			}
		})
		<-stuck.asked
	}
	for _, path := range []string{"/", "/api/v1/locks", "/api/v1/terms"} {
		if got := get(path); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" || !strings.Contains(got.Body.String(), "40 requests") {
			t.Errorf("%s: %d %s", path, got.Code, got.Body)
		}
	}
	close(stuck.answer)
	asking.Wait()
	if got := get("/api/v1/locks"); got.Code != http.StatusOK {
		t.Errorf("afterwards: %d %s", got.Code, got.Body)
	}
	if lines := logs.With("ERROR terms cannot be read error=/var/lib/secret/history"); len(lines) != most {
		t.Errorf("%d lines, want %d", len(lines), most)
	}
}
