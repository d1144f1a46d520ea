package plugin_test

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/plugin"
)

// health returns whether the data source is well, and what it says.
func health(tb testing.TB, d *plugin.Datasource) (well bool, message string) {
	tb.Helper()
	result, err := d.CheckHealth(context.Background(), &backend.CheckHealthRequest{})
	if err != nil {
		tb.Fatal(err)
	}
	return result.Status == backend.HealthStatusOk, result.Message
}

// proxyTo passes requests on to the exporter.
func proxyTo(tb testing.TB, p *process) http.Handler {
	tb.Helper()
	target, err := url.Parse(p.url)
	if err != nil {
		tb.Fatal(err)
	}
	return httputil.NewSingleHostReverseProxy(target)
}

func serve(tb testing.TB, handler http.Handler) string {
	tb.Helper()
	server := httptest.NewServer(handler)
	tb.Cleanup(server.Close)
	return server.URL
}

func TestHealthCheckNamesEachCause(t *testing.T) {
	good := startExporter(t, dsn(newDatabase(t)), "127.0.0.1:0")
	good.await(t, "")
	gone := httptest.NewServer(nil)
	gone.Close()
	tls := httptest.NewTLSServer(proxyTo(t, good))
	t.Cleanup(tls.Close)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw}))
	file := filepath.Join(t.TempDir(), "web.yml")
	const hash = "$2a$04$RlG6xK1Uyq39jwdwqLCil.PFbKf.lboGrghaULb0jE1j.c1MASu9a" // of "open sesame"
	if err := os.WriteFile(file, []byte("basic_auth_users: {monitor: "+hash+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	locked := startExporter(t, dsn(newDatabase(t)), "127.0.0.1:0", "--web.config.file="+file)
	credentials := backend.DataSourceInstanceSettings{
		URL: locked.url, BasicAuthEnabled: true, BasicAuthUser: "monitor", DecryptedSecureJSONData: map[string]string{"basicAuthPassword": "open sesame"},
	}
	withCredentials := instance(t, credentials)
	eventually(t, func() (bool, any) { // until it has polled
		well, message := health(t, withCredentials)
		return well, message
	})
	noTarget := startExporter(t, "postgres://postgres@127.0.0.1:1/postgres", "127.0.0.1:0")
	bearer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer to$ken" || r.Header.Get("X-Scope-Orgid") != "eu" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		proxyTo(t, good).ServeHTTP(w, r)
	})
	old := http.NewServeMux()
	old.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("leader_exporter_build_info{version=\"0.1\"} 1\n"))
	})
	status := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>hello</html>")) })
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })

	for name, c := range map[string]struct {
		settings backend.DataSourceInstanceSettings
		well     bool
		want     string
	}{
		"well":         {backend.DataSourceInstanceSettings{URL: good.url}, true, "Targets: 1, all up"},
		"slash at end": {backend.DataSourceInstanceSettings{URL: good.url + "/"}, true, "all up"},
		"prefix":       {backend.DataSourceInstanceSettings{URL: serve(t, http.StripPrefix("/leader", proxyTo(t, good))) + "/leader/"}, true, "all up"},
		"no address":   {backend.DataSourceInstanceSettings{}, false, "No address"},
		"bad address":  {backend.DataSourceInstanceSettings{URL: "exporter:18861"}, false, "No address"},
		"refused":      {backend.DataSourceInstanceSettings{URL: gone.URL}, false, "Refused"},
		"no such host": {backend.DataSourceInstanceSettings{URL: "http://exporter.invalid"}, false, "cannot be"},
		"unknown CA":   {backend.DataSourceInstanceSettings{URL: tls.URL}, false, "TLS fails"},
		"own CA": {backend.DataSourceInstanceSettings{
			URL: tls.URL, JSONData: []byte(`{"tlsAuthWithCACert": true}`), DecryptedSecureJSONData: map[string]string{"tlsCACert": ca},
		}, true, "all up"},
		"broken CA": {backend.DataSourceInstanceSettings{
			URL: tls.URL, JSONData: []byte(`{"tlsAuthWithCACert": true}`), DecryptedSecureJSONData: map[string]string{"tlsCACert": "none"},
		}, false, "TLS fails"},
		"https to http": {backend.DataSourceInstanceSettings{URL: strings.Replace(good.url, "http:", "https:", 1)}, false, "TLS fails"},
		"http to https": {backend.DataSourceInstanceSettings{URL: strings.Replace(tls.URL, "https:", "http:", 1)}, false, "TLS fails"},
		"401":           {backend.DataSourceInstanceSettings{URL: locked.url}, false, "401"},
		"wrong password": {backend.DataSourceInstanceSettings{
			URL: locked.url, BasicAuthEnabled: true, BasicAuthUser: "monitor", DecryptedSecureJSONData: map[string]string{"basicAuthPassword": "sesame"},
		}, false, "401"},
		"basic auth": {credentials, true, "exporter answers"},
		"bearer": {backend.DataSourceInstanceSettings{
			URL: serve(t, bearer), JSONData: []byte(`{"httpHeaderName1": "X-Scope-OrgID"}`),
			DecryptedSecureJSONData: map[string]string{"bearerToken": "to$ken", "httpHeaderValue1": "eu"},
		}, true, "all up"},
		"403":          {backend.DataSourceInstanceSettings{URL: serve(t, status(403))}, false, "403"},
		"503":          {backend.DataSourceInstanceSettings{URL: serve(t, status(503))}, false, "busy"},
		"no exporter":  {backend.DataSourceInstanceSettings{URL: serve(t, page)}, false, "not leader-exporter"},
		"404":          {backend.DataSourceInstanceSettings{URL: serve(t, status(404))}, false, "not leader-exporter"},
		"old API":      {backend.DataSourceInstanceSettings{URL: serve(t, old)}, false, "Old API"},
		"no target up": {backend.DataSourceInstanceSettings{URL: noTarget.url}, false, "none of its targets is up"},
		"slow":         {backend.DataSourceInstanceSettings{URL: serve(t, slow), JSONData: []byte(`{"timeout": 1}`)}, false, "No answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			d := instance(t, c.settings)
			well, message := health(t, d)
			if c.well {
				eventually(t, func() (bool, any) {
					well, message = health(t, d)
					return well, message
				})
			}
			for _, secret := range []string{"sesame", "to$ken"} {
				if strings.Contains(message, secret) {
					t.Errorf("the message has a secret: %s", message)
				}
			}
			if well != c.well || !strings.Contains(message, c.want) {
				t.Errorf("well %v: %s; want %v and %q in it", well, message, c.well, c.want)
			}
		})
	}
}
