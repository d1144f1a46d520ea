package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	pluginID = "plexsphere-leader-datasource"
	// prefix begins the uid of everything that is made here, so that what the server has already stays.
	prefix = "testgrafana-"
	// patience bounds one call.
	patience = 30 * time.Second
)

// grafana is a server, by its HTTP API. It is for one goroutine.
type grafana struct {
	base           *url.URL
	user, password string
	made           []string // paths to delete at the end
}

// panelPage is where one panel of a dashboard is shown alone.
type panelPage struct {
	name, url string
	asks      bool // it has a query
}

func newGrafana(address, user, password string) (*grafana, error) {
	base, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil || base.Host == "" {
		return nil, errors.New("GRAFANA_URL must be like http://localhost:3000")
	}
	return &grafana{base: base, user: user, password: password}, nil
}

// call sends a request, and decodes the answer unless into is nil. An answer other than 200 is an error.
func (g *grafana) call(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%s %s: no answer in %v", method, path, patience))
	defer cancel()
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, g.base.String()+path, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	request.SetBasicAuth(g.user, g.password)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %.300s", method, path, response.Status, text)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

func (g *grafana) hasPlugin(ctx context.Context) error {
	if err := g.call(ctx, http.MethodGet, "/api/plugins/"+pluginID+"/settings", nil, nil); err != nil {
		return fmt.Errorf("the plugin is not loaded: put grafana-plugin/dist, as make plugin builds it, into the server's folder of plugins as %s, "+
			"and name it in allow_loading_unsigned_plugins: %w", pluginID, err)
	}
	return nil
}

// addSource makes a data source, which has to be healthy.
func (g *grafana) addSource(ctx context.Context, kind, address string) error {
	uid := prefix + kind
	path := "/api/datasources/uid/" + uid
	_ = g.call(ctx, http.MethodDelete, path, nil, nil) // of a run that was killed
	err := g.call(ctx, http.MethodPost, "/api/datasources", map[string]any{"uid": uid, "name": uid, "type": kind, "access": "proxy", "url": address}, nil)
	if err != nil {
		return err
	}
	g.made = append(g.made, path)
	var health struct{ Status, Message string }
	if err := g.call(ctx, http.MethodGet, path+"/health", nil, &health); err != nil {
		return fmt.Errorf("data source %s at %s: %w", kind, address, err)
	}
	if health.Status != "OK" {
		return fmt.Errorf("data source %s at %s: %s: %s", kind, address, health.Status, health.Message)
	}
	return nil
}

// addBoard makes a dashboard of a file, and returns the pages of its panels.
func (g *grafana) addBoard(ctx context.Context, file, source string) ([]panelPage, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("a dashboard is missing; make plugin builds the plugin's: %w", err)
	}
	var dashboard map[string]any
	if err := json.Unmarshal(text, &dashboard); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var contents struct {
		UID, Title string
		Panels     []panel
	}
	if err := json.Unmarshal(text, &contents); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	uid := prefix + strings.TrimPrefix(contents.UID, "plexsphere-") // at most 40 characters
	dashboard["uid"], dashboard["title"] = uid, prefix+contents.Title
	delete(dashboard, "id")
	if err := g.call(ctx, http.MethodPost, "/api/dashboards/db", map[string]any{"dashboard": dashboard, "overwrite": true}, nil); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	g.made = append(g.made, "/api/dashboards/uid/"+uid)
	var pages []panelPage
	for _, p := range flat(contents.Panels) {
		query := url.Values{"panelId": {strconv.Itoa(p.ID)}, "var-datasource": {prefix + source}, "from": {"now-1h"}, "to": {"now"}}
		pages = append(pages, panelPage{
			name: contents.Title + ": " + p.Title, url: g.base.String() + "/d-solo/" + uid + "?" + query.Encode(), asks: len(p.Targets) > 0,
		})
	}
	if len(pages) == 0 {
		return nil, fmt.Errorf("%s has no panel", file)
	}
	return pages, nil
}

type panel struct {
	ID          int
	Type, Title string
	Targets     []any
	Panels      []panel // of a row that is closed
}

// flat returns the panels without the rows around them.
func flat(panels []panel) (all []panel) {
	for _, p := range panels {
		if p.Type == "row" {
			all = append(all, flat(p.Panels)...)
		} else {
			all = append(all, p)
		}
	}
	return all
}

// session logs in as a browser does, and returns the cookies.
func (g *grafana) session(ctx context.Context) ([]*http.Cookie, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("login: no answer"))
	defer cancel()
	body, err := json.Marshal(map[string]string{"user": g.user, "password": g.password})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.base.String()+"/login", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("login: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || len(response.Cookies()) == 0 {
		return nil, fmt.Errorf("login: %s, with %d cookies", response.Status, len(response.Cookies()))
	}
	return response.Cookies(), nil
}

// clean deletes what was made, newest first.
func (g *grafana) clean(ctx context.Context) error {
	var all error
	for i := len(g.made) - 1; i >= 0; i-- {
		all = errors.Join(all, g.call(ctx, http.MethodDelete, g.made[i], nil, nil))
	}
	return all
}
