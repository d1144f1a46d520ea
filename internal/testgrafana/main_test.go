package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// server speaks what is needed of Grafana's API, and shows pages with the marks by which Grafana's own are told.
type server struct {
	*httptest.Server
	panel  string            // what a page shows
	answer string            // to queries
	refuse map[string]string // answers with status 500, by the begin of "METHOD path"

	mu   sync.Mutex
	has  map[string]bool // guarded by mu; paths of what was made
	told []string        // guarded by mu; requests
}

const (
	content = `<div data-testid="data-testid panel content">42</div>`
	asks    = `<script>fetch('/api/ds/query', {method: 'POST'})</script>`
)

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{has: make(map[string]bool), panel: content + asks, answer: `{"results": {"A": {"status": 200, "frames": []}}}`}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := r.Method + " " + r.URL.Path
	s.told = append(s.told, call)
	_, password, _ := r.BasicAuth()
	cookie, _ := r.Cookie("grafana_session")
	for begin, text := range s.refuse {
		if strings.HasPrefix(call, begin) {
			http.Error(w, text, http.StatusInternalServerError)
			return
		}
	}
	var body struct {
		UID, Password string
		Dashboard     struct{ UID string }
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	switch {
	case call == "POST /login" && body.Password == "secret":
		http.SetCookie(w, &http.Cookie{Name: "grafana_session", Value: "s", Path: "/", HttpOnly: true})
	case password != "secret" && (cookie == nil || cookie.Value != "s"):
		http.Error(w, "who are you?", http.StatusUnauthorized)
	case call == "POST /api/datasources":
		s.has["/api/datasources/uid/"+body.UID] = true
	case call == "POST /api/dashboards/db":
		s.has["/api/dashboards/uid/"+body.Dashboard.UID] = true
	case call == "POST /api/ds/query":
		fmt.Fprint(w, s.answer)
	case r.Method == http.MethodDelete:
		if !s.has[r.URL.Path] {
			http.NotFound(w, r)
		}
		delete(s.has, r.URL.Path)
	case strings.HasSuffix(call, "/health"):
		fmt.Fprint(w, `{"status": "OK", "message": "well"}`)
	case strings.HasPrefix(call, "GET /d-solo/"):
		fmt.Fprintf(w, `<!DOCTYPE html><title>Grafana</title><body>%s`, s.panel)
	case strings.HasPrefix(call, "GET /api/plugins/"):
		fmt.Fprint(w, `{}`)
	default:
		http.NotFound(w, r)
	}
}

// root makes a folder with three dashboards, of which one has a panel in a row.
func root(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"dashboards/fleet.json":                       `{"uid": "plexsphere-f", "title": "Fleet", "panels": [{"id": 1, "type": "stat", "title": "One", "targets": [{}]}]}`,
		"dashboards/deployment.json":                  `{"uid": "plexsphere-d", "title": "Deployment", "panels": [{"id": 1, "type": "row", "panels": [{"id": 2, "title": "Two", "targets": [{}]}]}]}`,
		"grafana-plugin/dist/dashboards/leaders.json": `{"uid": "plexsphere-l", "title": "Leaders", "panels": [{"id": 3, "title": "Three"}]}`,
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// attempt runs the command against the server, with changes to the environment.
func attempt(t *testing.T, s *server, changes map[string]string) (code int, out string) {
	t.Helper()
	env := map[string]string{"GRAFANA_URL": s.URL + "/", "GRAFANA_PASSWORD": "secret", "LEADER_EXPORTER_URL": "http://e", "PROMETHEUS_URL": "http://p"}
	maps.Copy(env, changes)
	var text strings.Builder
	code = run(t.Context(), func(name string) string { return env[name] }, root(t), &text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.has) > 0 {
		t.Errorf("left on the server: %v", s.has)
	}
	return code, text.String()
}

func TestWithoutAServerNothingIsRunAndThatIsSaid(t *testing.T) {
	if code, out := attempt(t, newServer(t), map[string]string{"GRAFANA_URL": ""}); code != 0 || !strings.Contains(out, "not run: GRAFANA_URL") {
		t.Errorf("exit %d: %s", code, out)
	}
}

func TestEachPanelIsOpened(t *testing.T) {
	s := newServer(t)
	pictures := t.TempDir()
	code, out := attempt(t, s, map[string]string{"LEADER_EXPORTER_ARTEFACTS": pictures})
	if code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	for _, want := range []string{"ok   Fleet: One", "ok   Deployment: Two", "ok   Leaders: Three"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	for _, want := range []string{"GET /d-solo/testgrafana-f", "GET /d-solo/testgrafana-d", "GET /d-solo/testgrafana-l", "GET /api/datasources/uid/testgrafana-prometheus/health"} {
		if !slices.Contains(s.told, want) {
			t.Errorf("not asked: %s", want)
		}
	}
	if found, _ := filepath.Glob(pictures + "/*.png"); len(found) != 3 {
		t.Errorf("pictures: %q", found)
	}
}

func TestWhatIsWrongFailsAndIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*server)
		env    map[string]string
		want   string
	}{
		"an error on the panel": {func(s *server) {
			s.panel += `<button data-testid="data-testid Panel status error" aria-label="bad query"></button>`
		}, nil, "Fleet: One: Panel status error: bad query"},
		"an error that comes late": {func(s *server) {
			s.panel = content + `<script>fetch('/api/ds/query', {method: 'POST'}).then(() =>
				document.body.insertAdjacentHTML('beforeend', '<i data-testid="data-testid Panel data error message">Data is missing a time field</i>'))</script>`
		}, nil, "missing a time field"},
		"an error on the page": {func(s *server) {
			s.panel = `<div data-testid="data-testid Alert error">Panel plugin not found</div>`
		}, nil, "Leaders: Three: Alert error: Panel plugin not found"},
		"an error in an answer": {func(s *server) { s.answer = `{"results": {"A": {"error": "parse error", "status": 400}}}` }, nil, "query A: parse error"},
		"a query that fails":    {func(s *server) { s.refuse = map[string]string{"POST /api/ds/query": "no luck"} }, nil, "500 no luck"},
		"no plugin":             {func(s *server) { s.refuse = map[string]string{"GET /api/plugins": "none"} }, nil, "the plugin is not loaded"},
		"an unhealthy source":   {func(s *server) { s.refuse = map[string]string{"GET /api/datasources/uid/testgrafana-plex": "ill"} }, nil, "data source plexsphere-leader-datasource at http://e"},
		"a refused dashboard":   {func(s *server) { s.refuse = map[string]string{"POST /api/dashboards": "no"} }, nil, "fleet.json"},
		"a wrong password":      {func(*server) {}, map[string]string{"GRAFANA_PASSWORD": "guess"}, "401"},
		"nothing to show":       {func(*server) {}, map[string]string{"PROMETHEUS_URL": "", "LEADER_EXPORTER_URL": ""}, "LEADER_EXPORTER_URL is not set\nPROMETHEUS_URL is not set"},
		"no address":            {func(*server) {}, map[string]string{"GRAFANA_URL": "grafana"}, "GRAFANA_URL must be like"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			c.change(s)
			if code, out := attempt(t, s, c.env); code != 1 || !strings.Contains(out, c.want) || strings.Contains(out, "secret") {
				t.Errorf("exit %d, want 1 and %q in: %s", code, c.want, out)
			}
		})
	}
}
