package api

import (
	_ "embed" // of the OpenAPI file
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plexsphere/leader-exporter/history"
)

//go:embed openapi.yaml
var openAPI []byte

// Config is what New needs; all of it is required.
type Config struct {
	Targets func() []Target // the present ones, in the order in which they are shown; safe from any goroutine
	History History
	Events  *Events
	Version string // shown on the status page
	Logger  *slog.Logger
}

// History tells of terms as they were last seen, and never waits for a disk. *history.Recorder is one.
type History interface {
	Terms(q history.Query) (history.Page, error)
}

// maxRequests is how many requests, those for events not counted, may be under way at once.
const maxRequests = 40

// handler serves the paths of the package.
type handler struct {
	cfg      Config
	template *template.Template // of the status page
	slots    chan struct{}      // one for each request under way, those for events not counted
}

// New returns a handler of the paths in the package comment. It answers other methods than GET and HEAD with 405, and a path that it does not have
// with 404; below /api/ with a Problem.
func New(cfg Config) http.Handler {
	h := &handler{cfg: cfg, template: newPageTemplate(), slots: make(chan struct{}, maxRequests)}
	mux := http.NewServeMux()
	for path, answer := range map[string]http.Handler{
		"/api/v1/locks":        h.limited(h.locks),
		"/api/v1/terms":        h.limited(h.terms),
		"/api/v1/events":       http.HandlerFunc(h.events),
		"/api/v1/openapi.yaml": http.HandlerFunc(describe),
	} {
		mux.Handle("GET "+path, answer)
		mux.HandleFunc(path, otherMethod)
	}
	mux.HandleFunc("/api/", noSuchPath)
	mux.Handle("GET /{$}", h.limited(h.statusPage))
	mux.Handle("GET /static/", http.StripPrefix("/static/", static()))
	return mux
}

// describe answers with the OpenAPI file.
func describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openAPI)
}

func otherMethod(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", "GET, HEAD")
	fail(w, http.StatusMethodNotAllowed, fmt.Errorf("method %s: there are GET and HEAD", r.Method))
}

func noSuchPath(w http.ResponseWriter, r *http.Request) {
	fail(w, http.StatusNotFound, fmt.Errorf("path %s: not known; /api/v1/openapi.yaml describes those that are", r.URL.Path))
}

// limited refuses what comes while maxRequests are under way.
func (h *handler) limited(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case h.slots <- struct{}{}:
			defer func() { <-h.slots }()
			next(w, r)
		default:
			busy(w, fmt.Errorf("%d requests are under way, and no more are let in", maxRequests))
		}
	})
}

// LocksAnswer is what /api/v1/locks answers.
type LocksAnswer struct {
	Locks   []Lock         `json:"locks"`
	Targets []TargetAnswer `json:"targets"`
}

// TargetAnswer is what is known of a target as a whole.
type TargetAnswer struct {
	Target              string            `json:"target"`
	Labels              map[string]string `json:"labels,omitempty"`
	Up                  bool              `json:"up"` // the last poll was answered, and is fresh
	Error               string            `json:"error,omitempty"`
	At                  *time.Time        `json:"at,omitempty"`           // the last poll's end, by the exporter's clock
	LastSuccess         *time.Time        `json:"last_success,omitempty"` // the last answered poll's end, likewise
	InRecovery          *bool             `json:"in_recovery,omitempty"`  // as of the last answered poll; nil before the first, as ServerLocks
	ServerLocks         *int64            `json:"server_locks,omitempty"` // rows of pg_locks
	PollIntervalSeconds float64           `json:"poll_interval_seconds"`
}

func (h *handler) locks(w http.ResponseWriter, r *http.Request) {
	names, err := parse(r.URL.RawQuery, "target", "datname", "lock")
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	now := time.Now()
	answer := LocksAnswer{Locks: []Lock{}, Targets: []TargetAnswer{}}
	for _, target := range h.cfg.Targets() {
		if !matches(names.Get("target"), target.Name) {
			continue
		}
		s := target.Source.Snapshot()
		why := ""
		if !s.Fresh(now) {
			why = whyUnknown(s, now)
		}
		about := TargetAnswer{
			Target: target.Name, Labels: target.Labels, Up: s.Fresh(now), Error: why, At: known(s.At), LastSuccess: known(s.LastSuccess),
			PollIntervalSeconds: s.Interval.Seconds(),
		}
		if !s.LastSuccess.IsZero() {
			about.InRecovery, about.ServerLocks = &s.InRecovery, &s.ServerLocks
		}
		answer.Targets = append(answer.Targets, about)
		for _, lock := range target.LocksOf(s, now) {
			if matches(names.Get("datname"), lock.Datname) && matches(names.Get("lock"), lock.Lock) {
				answer.Locks = append(answer.Locks, lock)
			}
		}
	}
	respond(w, answer)
}

// TermsAnswer is what /api/v1/terms answers.
type TermsAnswer struct {
	Terms []Term `json:"terms"`          // newest first
	Next  string `json:"next,omitempty"` // the cursor of the next page, if there is one
}

func (h *handler) terms(w http.ResponseWriter, r *http.Request) {
	query, err := termsQuery(r.URL.RawQuery)
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	page, err := h.cfg.History.Terms(query)
	switch {
	case errors.Is(err, history.ErrBadCursor):
		fail(w, http.StatusBadRequest, fmt.Errorf("parameter cursor: %w", history.ErrBadCursor))
		return
	case errors.Is(err, history.ErrBadRange):
		fail(w, http.StatusBadRequest, errors.New("parameters from and to: the range ends before it begins"))
		return
	case err != nil:
		h.cfg.Logger.ErrorContext(r.Context(), "terms cannot be read", slog.Any("error", err))
		fail(w, http.StatusInternalServerError, errors.New("the history cannot be read; the log says why"))
		return
	}
	respond(w, TermsOf(page, h.cfg.Targets()))
}

// termsQuery reads the parameters of /api/v1/terms.
func termsQuery(raw string) (history.Query, error) {
	values, err := parse(raw, "target", "datname", "lock", "from", "to", "limit", "cursor")
	if err != nil {
		return history.Query{}, err
	}
	q := history.Query{
		Target: values.Get("target"), Datname: values.Get("datname"), Lock: values.Get("lock"), Cursor: values.Get("cursor"),
	}
	var problems []error
	for name, bound := range map[string]*time.Time{"from": &q.From, "to": &q.To} {
		if text := values.Get(name); text != "" {
			if *bound, err = time.Parse(time.RFC3339Nano, text); err != nil {
				problems = append(problems, fmt.Errorf("parameter %s: %q is no time as of RFC 3339, such as 2026-12-02T15:04:05Z", name, text))
			}
		}
	}
	if text := values.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > 1000 {
			problems = append(problems, fmt.Errorf("parameter limit: %q is no whole number from 1 to 1000", text))
		}
	}
	return q, errors.Join(problems...)
}

// parse reads a query. It refuses what is malformed, and parameters that are not known or given twice.
func parse(raw string, known ...string) (url.Values, error) {
	var problems []error
	values := make(url.Values)
	for pair := range strings.SplitSeq(raw, "&") {
		one, err := url.ParseQuery(pair)
		if err != nil {
			problems = append(problems, fmt.Errorf("query: %q: %w", pair, err))
		}
		for name, given := range one {
			values[name] = append(values[name], given...)
		}
	}
	for name, given := range values {
		if !slices.Contains(known, name) {
			problems = append(problems, fmt.Errorf("parameter %s: not known here; there are %s", name, strings.Join(known, ", ")))
		} else if len(given) > 1 {
			problems = append(problems, fmt.Errorf("parameter %s: given more than once", name))
		}
	}
	return values, errors.Join(problems...)
}

// matches reports whether the name is the wanted one; an empty wish is any.
func matches(wanted, name string) bool { return wanted == "" || wanted == name }

func respond(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(answer)
}

// Problem is the body of every answer that is no success.
type Problem struct {
	Error string `json:"error"`
}

// busy says that it may be tried again soon.
func busy(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", "5")
	fail(w, http.StatusServiceUnavailable, err)
}

func fail(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(Problem{Error: strings.ReplaceAll(err.Error(), "\n", "; ")})
}
