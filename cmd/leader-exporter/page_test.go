package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// browser is a headless Chromium with what its console says.
type browser struct {
	ctx context.Context //nolint:containedctx // chromedp keeps the browser in it

	mu      sync.Mutex
	console []string // guarded by mu
}

// startBrowser starts Chromium until the test ends.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v: make setup installs it", err)
	}
	ctx, expire := context.WithTimeout(context.Background(), 2*patience)
	ctx, closeAllocator := chromedp.NewExecAllocator(ctx, chromedp.ExecPath(path), chromedp.Headless, chromedp.NoSandbox, chromedp.WindowSize(1000, 1200))
	ctx, closeBrowser := chromedp.NewContext(ctx)
	b := &browser{ctx: ctx}
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	messages := chromedp.Console(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for message, err := range messages {
			if err == nil {
				b.mu.Lock()
				b.console = append(b.console, message.Text)
				b.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		closeBrowser()
		closeAllocator()
		expire()
		<-done
	})
	return b
}

// open loads a page.
func (b *browser) open(t *testing.T, url string) {
	t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
}

// eval returns the value of an expression in the page.
func eval[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatal(expression, err)
	}
	return value
}

// prefer asks the page for a colour scheme.
func (b *browser) prefer(t *testing.T, scheme string) {
	t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// allowScripts says whether pages that are loaded from now on may run scripts.
func (b *browser) allowScripts(t *testing.T, allowed bool) {
	t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !allowed}); err != nil {
		t.Fatal(err)
	}
}

// shoot keeps a picture of the page, where LEADER_EXPORTER_ARTEFACTS names a folder for such things, else in a temporary one.
func (b *browser) shoot(t *testing.T, name string) {
	t.Helper()
	folder := os.Getenv("LEADER_EXPORTER_ARTEFACTS")
	if folder == "" {
		folder = t.TempDir()
	}
	shot, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name), shot.Data, 0o644); err != nil {
		t.Fatal(err)
	}
	if len(shot.Data) < 5000 {
		t.Errorf("the picture %s has %d bytes", name, len(shot.Data))
	}
}

// awaitText waits until an element holds the text, without loading the page again.
func (b *browser) awaitText(t *testing.T, selector, want string) {
	t.Helper()
	pgtest.Eventually(t, patience, want, func() (bool, string) {
		text := eval[string](t, b, `document.querySelector("`+selector+`").innerText`)
		return strings.Contains(text, want), text
	})
}

// The status page in a browser: it follows what happens, keeps what is opened open, is dark where asked to be, needs no JavaScript,
// says when the exporter is gone, and breaks none of its own rules.
func TestStatusPageInABrowser(t *testing.T) {
	db := pgtest.Database(t)
	t.Setenv("LEADER_EXPORTER_DSN", db.DSN)
	ctx, stopExporter := context.WithCancel(context.Background())
	defer stopExporter()
	e := startExporterUntil(t, ctx)
	b := startBrowser(t)

	b.open(t, e.url+"/")
	b.awaitText(t, "#live", "nobody leads")
	eval[bool](t, b, `window.notLoadedAgain = true`)
	holder := db.Connect(t)
	lead := func(name string) {
		t.Helper()
		if _, err := holder.Exec(t.Context(), "SELECT set_config('application_name', $1, false), pg_try_advisory_lock(1886156915, 1)", name); err != nil {
			t.Fatal(err)
		}
	}
	lead("plexsphere-1")
	b.awaitText(t, "#live", "by plexsphere-1")
	eval[bool](t, b, `document.querySelector("summary").click() ?? true`)
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_unlock(1886156915, 1)"); err != nil {
		t.Fatal(err)
	}
	b.awaitText(t, "#live", "nobody leads")
	lead("plexsphere-2")
	b.awaitText(t, "#live", "by plexsphere-2")

	if !eval[bool](t, b, `window.notLoadedAgain === true`) {
		t.Error("the page was loaded again")
	}
	if !eval[bool](t, b, `document.querySelector("details").open`) {
		t.Error("the list of terms was closed")
	}
	if bars := eval[int](t, b, `document.querySelectorAll(".timeline .term").length`); bars != 2 {
		t.Errorf("%d terms on the timeline, want 2", bars)
	}
	for scheme, want := range map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"} {
		b.prefer(t, scheme)
		if got := eval[string](t, b, `getComputedStyle(document.body).backgroundColor`); got != want {
			t.Errorf("%s: background %s, want %s", scheme, got, want)
		}
		b.shoot(t, "status-"+scheme+".png")
	}

	b.allowScripts(t, false)
	b.open(t, e.url+"/")
	b.awaitText(t, "#live", "by plexsphere-2")
	if got := eval[string](t, b, `document.querySelector("meta[http-equiv=refresh]").content`); got != "10" {
		t.Errorf("without JavaScript the page refreshes after %q s, want 10", got)
	}
	b.allowScripts(t, true)
	b.open(t, e.url+"/")
	b.awaitText(t, "#connection", "Live")
	b.mu.Lock()
	if len(b.console) != 0 {
		t.Errorf("the browser complains: %q", b.console)
	}
	b.mu.Unlock()
	stopExporter()
	b.awaitText(t, "#connection", "interrupted")
	b.awaitText(t, "#connection", "does not answer")
}
