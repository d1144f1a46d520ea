// Package demotest runs plexsphere-demo in tests, built as a user's would be.
package demotest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/internal/syncbuf"
)

// Demo is a running "plexsphere-demo up". Its methods belong to one goroutine.
type Demo struct {
	Cmd    *exec.Cmd
	Out    *syncbuf.Buffer // what it has printed
	Folder string          // its TMPDIR: empty before and after
}

// Start builds both programs and starts up with the flags, until the test ends.
func Start(tb testing.TB, flags ...string) *Demo {
	tb.Helper()
	const commands = "github.com/plexsphere/leader-exporter/cmd/"
	bin := tb.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, commands+"leader-exporter", commands+"plexsphere-demo").CombinedOutput(); err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	folder, err := os.MkdirTemp("", "demo") //nolint:usetesting // user postgres cannot enter TempDir
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil { // user postgres must get through
		tb.Fatal(err)
	}
	d := &Demo{Cmd: exec.Command(filepath.Join(bin, "plexsphere-demo"), append([]string{"up"}, flags...)...), Out: &syncbuf.Buffer{}, Folder: folder}
	d.Cmd.Env = append(os.Environ(), "TMPDIR="+folder)
	d.Cmd.Stdout, d.Cmd.Stderr = d.Out, d.Out
	if err := d.Cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { // Ctrl-C, so that it takes its processes with it
		timer := time.AfterFunc(time.Minute, func() { _ = d.Cmd.Process.Kill() })
		defer timer.Stop()
		_ = d.Cmd.Process.Signal(syscall.SIGINT)
		_ = d.Cmd.Wait() // the test may have done so
	})
	return d
}

// Await waits until the demo has printed so many matches of the pattern, and returns them.
func (d *Demo) Await(tb testing.TB, within time.Duration, pattern string, times int) (found [][]string) {
	tb.Helper()
	expression := regexp.MustCompile(pattern)
	pgtest.Eventually(tb, within, pattern, func() (bool, string) {
		found = expression.FindAllStringSubmatch(d.Out.String(), -1)
		return len(found) >= times, d.Out.String()
	})
	return found
}
