package exporter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// maxRequests is how many requests of one data source may be under way: a fifth of what an exporter lets in.
	maxRequests = 8
	// maxAnswer bounds the body of one answer: a page of 1000 terms has half a MiB.
	maxAnswer = 32 << 20
	// maxWait bounds a shared request, whose context is nobody's own. A client's own timeout is shorter, as a rule.
	maxWait = 2 * time.Minute
)

// ErrNoAddress means that the address is empty or no http URL.
var ErrNoAddress = errors.New("no address")

// ErrNotJSON means that what answered is no API of an exporter.
var ErrNotJSON = errors.New("the answer is no JSON")

// StatusError is an answer other than 200.
type StatusError struct {
	Code    int
	Message string // what an exporter says, or the begin of the body
}

func (e *StatusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("HTTP status %d %s", e.Code, http.StatusText(e.Code))
	}
	return fmt.Sprintf("HTTP status %d %s: %s", e.Code, http.StatusText(e.Code), e.Message)
}

// Client asks one exporter. Its methods are safe from any goroutine. Equal requests that are made at the same time are one.
type Client struct {
	base   *url.URL
	http   *http.Client // for answers
	stream *http.Client // for events: without a timeout of the whole answer
	shared singleflight.Group
	slots  chan struct{}
}

// New returns a client of the exporter at the address, which may have a path. It returns ErrNoAddress for one that is empty or wrong.
func New(address string, answers, events *http.Client) (*Client, error) {
	address = strings.TrimSpace(address)
	if address == "" {
		return nil, fmt.Errorf("exporter: %w: the URL is empty", ErrNoAddress)
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("exporter: %w: the URL must be like http://leader-exporter:18861", ErrNoAddress)
	}
	return &Client{base: base, http: answers, stream: events, slots: make(chan struct{}, maxRequests)}, nil
}

// Close lets idle connections go.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	c.stream.CloseIdleConnections()
}

// Locks returns the present state of the locks that the filter selects, and of its targets.
func (c *Client) Locks(ctx context.Context, f Filter) (Locks, error) {
	query := f.query()
	answer, err := share(ctx, c, "locks?"+query.Encode(), func(ctx context.Context) (answer Locks, err error) {
		err = c.get(ctx, "api/v1/locks", query, &answer)
		return answer, err
	})
	if err != nil {
		return Locks{}, err
	}
	// The answer may be shared, so it is copied, not cut.
	var selected Locks
	for _, lock := range answer.Locks {
		if f.selects(lock.Target, lock.Datname, lock.Lock) {
			selected.Locks = append(selected.Locks, lock)
		}
	}
	for _, target := range answer.Targets {
		if f.selects(target.Target, "", "") {
			selected.Targets = append(selected.Targets, target)
		}
	}
	return selected, nil
}

// Body returns the begin of the body at a path of the exporter.
func (c *Client) Body(ctx context.Context, path string) (string, error) {
	response, err := c.do(ctx, c.http, path, nil, nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return string(body), err
}

// get decodes the answer at a path.
func (c *Client) get(ctx context.Context, path string, query url.Values, answer any) error {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	response, err := c.do(ctx, c.http, path, query, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != "application/json" {
		return fmt.Errorf("exporter: %w but %q", ErrNotJSON, kind)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("exporter: read %s: %w", path, err)
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("exporter: %w: %w", ErrNotJSON, err)
	}
	return nil
}

// do sends a request and returns an answer of status 200, or an error.
func (c *Client) do(ctx context.Context, client *http.Client, path string, query url.Values, header http.Header) (*http.Response, error) {
	address := c.base.JoinPath(path)
	address.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("exporter: %w", err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := client.Do(request)
	if err != nil {
		// The URL may hold a password, so its text stays out.
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return nil, fmt.Errorf("exporter: get %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, fmt.Errorf("exporter: get %s: %w", path, statusError(response))
	}
	return response, nil
}

// statusError reads why an exporter, or what is there instead, refuses.
func statusError(response *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	var problem struct {
		Error string `json:"error"`
	}
	message := strings.TrimSpace(string(body))
	if json.Unmarshal(body, &problem) == nil {
		message = problem.Error
	} else if runes := []rune(message); len(runes) > 100 {
		message = string(runes[:100])
	}
	return &StatusError{Code: response.StatusCode, Message: message}
}

// share joins equal requests of the same time. Each caller's context ends its own waiting alone.
func share[T any](ctx context.Context, c *Client, key string, ask func(context.Context) (T, error)) (T, error) {
	shared := c.shared.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxWait)
		defer cancel()
		return ask(ctx)
	})
	var none T
	select {
	case <-ctx.Done():
		return none, context.Cause(ctx)
	case result := <-shared:
		if result.Err != nil {
			return none, result.Err
		}
		answer, _ := result.Val.(T)
		return answer, nil
	}
}

// query is the part of the filter that the exporter can apply: it takes one name of each kind.
func (f Filter) query() url.Values {
	query := make(url.Values)
	for name, values := range map[string][]string{"target": f.Targets, "datname": f.Databases, "lock": f.Locks} {
		if len(values) == 1 {
			query.Set(name, values[0])
		}
	}
	return query
}

// selects reports whether the filter lets a lock pass. What has no name of a kind concerns all of that kind.
func (f Filter) selects(target, datname, lock string) bool {
	return selects(f.Targets, target) && selects(f.Databases, datname) && selects(f.Locks, lock)
}

func selects(names []string, name string) bool {
	return len(names) == 0 || name == "" || slices.Contains(names, name)
}
