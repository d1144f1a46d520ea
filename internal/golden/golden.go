// Package golden compares what a test produced with a file under testdata, which is reviewed as code.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update is set by "make golden"; CI never sets it.
var update = flag.Bool("update", false, "rewrite the golden files instead of comparing with them") //nolint:gochecknoglobals // a flag lives in package scope

// Require fails unless got equals testdata/name of the package under test.
func Require(tb testing.TB, name, got string) {
	tb.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			tb.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		tb.Errorf("%s differs (-want +got); if that is meant: make golden\n%s", path, diff)
	}
}
