package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/internal/selfsigned"
)

// The web configuration of all Prometheus exporters: TLS and basic auth on every path.
func TestWebConfigGuardsEveryPath(t *testing.T) {
	const hash = "$2a$04$RlG6xK1Uyq39jwdwqLCil.PFbKf.lboGrghaULb0jE1j.c1MASu9a" // of "open sesame"
	cert, key, err := selfsigned.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	web := newTestFile(t, fmt.Sprintf("tls_server_config: {cert_file: %s, key_file: %s}\nbasic_auth_users: {prometheus: %s}\n",
		newTestFile(t, string(cert)), newTestFile(t, string(key)), hash))
	db := pgtest.Database(t)
	t.Setenv("LEADER_EXPORTER_DSN", db.DSN)
	e := startExporter(t, "--web.config.file="+string(web), "--web.enable-lifecycle")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	address := "https" + e.url[len("http"):]
	for _, path := range []string{"/metrics", "/", "/-/healthy", "/-/ready", "/static/status.js", "/api/v1/locks", "/api/v1/terms", "/api/v1/openapi.yaml"} {
		for password, want := range map[string]int{"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, "open sesame": http.StatusOK} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if password != "" {
				req.SetBasicAuth("prometheus", password)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if err := resp.Body.Close(); err != nil || resp.StatusCode != want {
				t.Errorf("%s with password %q: %d, %v; want %d", path, password, resp.StatusCode, err, want)
			}
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("prometheus", "open sesame")
	events, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	if events.StatusCode != http.StatusOK || events.ProtoMajor != 2 {
		t.Fatalf("events: %s by %s, want 200 by HTTP/2", events.Status, events.Proto)
	}
	lines := bufio.NewScanner(events.Body)
	for _, want := range []string{"event: reset", `data: {"target":"default",.*"verdict":"unheld"`, `data: {"target":"default",.*"verdict":"held"`} {
		pattern, found := regexp.MustCompile(want), false
		for !found && lines.Scan() {
			found = pattern.MatchString(lines.Text())
		}
		if !found {
			t.Fatalf("the stream ended without %s: %v", want, lines.Err())
		}
		if strings.HasSuffix(want, `"unheld"`) {
			hold(t, db.DSN)
		}
	}

	if resp, err := http.Get(e.url + "/metrics"); err == nil {
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("served without TLS")
		}
	}
}
