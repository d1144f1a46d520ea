package pgbouncer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindLooksWhereDebianKeepsTheProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	folder := t.TempDir()
	if path, err := find(folder); err == nil || !strings.Contains(err.Error(), "apt-get install pgbouncer") {
		t.Errorf("find without a program = %s, %v; want to be told what to install", path, err)
	}
	want := filepath.Join(folder, "pgbouncer")
	if err := os.WriteFile(want, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if path, err := find(folder); path != want || err != nil {
		t.Errorf("find without PATH = %s, %v; want %s", path, err, want)
	}
}
