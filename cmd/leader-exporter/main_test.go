package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plexsphere/leader-exporter/internal/freeport"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

const patience = 30 * time.Second

// afterTests lets testscript run this package's tests and pgtest clean up after them.
type afterTests struct{ m *testing.M }

func (a afterTests) Run() int { return pgtest.Run(a.m) }

func TestMain(m *testing.M) {
	testscript.Main(afterTests{m}, map[string]func(){"leader-exporter": main})
}

// TestScripts runs the stories of testdata: each has a database of its own ($DSN), one that nobody serves ($DOWN), a free
// port ($ADDRESS), this repository ($REPOSITORY), and the command await.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			tb := env.T().(testing.TB)
			env.Setenv("DSN", pgtest.Database(tb).DSN)
			env.Setenv("DOWN", "postgres://postgres@"+freeAddress(tb)+"/postgres?sslmode=disable")
			env.Setenv("ADDRESS", freeAddress(tb))
			repository, err := filepath.Abs("../..")
			env.Setenv("REPOSITORY", repository)
			return err
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"await": await},
	})
}

// await URL REGEXP waits until the page matches; with ! in front, until it is there and does not.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: await URL REGEXP")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	var body string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if body, err = get(context.Background(), args[0]); err == nil && pattern.MatchString(body) != neg {
			return
		}
	}
	ts.Fatalf("await %v%s %s: %v\n%s", map[bool]string{true: "! "}[neg], args[0], args[1], err, body)
}

// get returns the body of a page that is served with 200.
func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	return string(body), err
}

// freeAddress returns a loopback address at which nobody listens.
func freeAddress(tb testing.TB) string {
	tb.Helper()
	address, err := freeport.Address()
	if err != nil {
		tb.Fatal(err)
	}
	return address
}

// status returns the status code of a request with the given Accept header.
func status(tb testing.TB, method, url, accept string) int {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), method, url, nil)
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	if accept != "" && !strings.Contains(resp.Header.Get("Content-Type"), "openmetrics") {
		tb.Errorf("Content-Type %q, want OpenMetrics", resp.Header.Get("Content-Type"))
	}
	return resp.StatusCode
}
