package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// rendering is how long a panel may take.
const rendering = 30 * time.Second

// watch counts a page's queries, and keeps what is wrong with their answers.
//
//go:embed watch.js
var watch string

// look opens each page in Chromium, and reports those that show or receive an error, or are not done in time. With a folder it keeps a
// picture of each.
func look(ctx context.Context, server *grafana, pages []panelPage, folder string, out io.Writer) error {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return fmt.Errorf("%w: make setup installs it", err)
	}
	cookies, err := server.session(ctx)
	if err != nil {
		return err
	}
	ctx, closeAllocator := chromedp.NewExecAllocator(ctx, chromedp.ExecPath(path), chromedp.Headless, chromedp.NoSandbox, chromedp.WindowSize(1000, 600))
	defer closeAllocator()
	ctx, closeBrowser := chromedp.NewContext(ctx)
	defer closeBrowser()
	if err := chromedp.Do(ctx); err != nil {
		return fmt.Errorf("start chromium: %w", err)
	}
	for _, cookie := range cookies {
		if _, err := chromedp.Call(ctx, network.SetCookie, network.SetCookieParams{Name: cookie.Name, Value: cookie.Value, URL: server.base.String()}); err != nil {
			return fmt.Errorf("set a cookie: %w", err)
		}
	}
	if _, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch}); err != nil {
		return fmt.Errorf("watch the pages: %w", err)
	}
	var wrong error
	for _, p := range pages {
		err := lookAt(ctx, p, folder)
		if err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %w", p.name, err))
		} else {
			fmt.Fprintf(out, "ok   %s\n", p.name)
		}
	}
	return wrong
}

// outcome is what watch.js says of a page.
type outcome struct {
	Errors []string `json:"errors"`
}

func lookAt(ctx context.Context, p panelPage, folder string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*rendering, errors.New("the browser does not answer"))
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(p.url)); err != nil {
		return fmt.Errorf("open the page: %w", err)
	}
	seen, err := chromedp.Run(ctx, chromedp.Poll[outcome](fmt.Sprintf("window.panelWatch.outcome(%t)", p.asks), chromedp.WithPollingTimeout(rendering)))
	if folder != "" {
		err = errors.Join(err, shoot(ctx, filepath.Join(folder, "grafana-"+regexp.MustCompile(`\W+`).ReplaceAllString(p.name, "-")+".png")))
	}
	if errors.Is(err, chromedp.ErrPollingTimeout) {
		state, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("window.panelWatch.state()"))
		return fmt.Errorf("not rendered after %v: %s", rendering, state)
	}
	for _, text := range seen.Errors {
		err = errors.Join(err, errors.New(text))
	}
	return err
}

func shoot(ctx context.Context, file string) error {
	shot, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, shot.Data, 0o644)
}
