package pgserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Template is a fresh cluster that others are copied from: a copy takes a tenth of the time of an initdb.
type Template struct {
	folder, bin string
	as          *syscall.Credential
}

// NewTemplate runs initdb in a new folder under the system's temporary one. Remove it with Remove.
func NewTemplate(ctx context.Context) (*Template, error) {
	bin, err := binFolder()
	if err != nil {
		return nil, fmt.Errorf("pgserver: %w", err)
	}
	as, err := Owner()
	if err != nil {
		return nil, fmt.Errorf("pgserver: %w", err)
	}
	folder, err := newFolder(as)
	if err != nil {
		return nil, fmt.Errorf("pgserver: %w", err)
	}
	initdb := command(as, bin, "initdb", "-D", filepath.Join(folder, "data"),
		"--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8")
	if out, err := runContext(ctx, initdb); err != nil {
		_ = os.RemoveAll(folder)
		return nil, fmt.Errorf("pgserver: %s: %w\n%s", initdb.Path, err, out)
	}
	return &Template{folder: folder, bin: bin, as: as}, nil
}

// Remove deletes the template. Servers copied from it go on.
func (t *Template) Remove() error { return os.RemoveAll(t.folder) }

// copyTo makes a cluster folder with a copy of the template's data.
func (t *Template) copyTo(ctx context.Context) (string, error) {
	folder, err := newFolder(t.as)
	if err != nil {
		return "", err
	}
	out, err := runContext(ctx, exec.Command("cp", "-a", filepath.Join(t.folder, "data"), folder))
	if err != nil {
		_ = os.RemoveAll(folder)
		return "", fmt.Errorf("copy the template: %w\n%s", err, out)
	}
	return folder, nil
}

// newFolder makes an empty folder that belongs to the server's owner. Its path is short, because that of a unix socket may
// have 107 bytes at most.
func newFolder(as *syscall.Credential) (string, error) {
	folder, err := os.MkdirTemp("", "pgserver-")
	if err != nil {
		return "", err
	}
	return folder, giveTo(as, folder)
}

// giveTo makes the server's owner that of a file or folder.
func giveTo(as *syscall.Credential, path string) error {
	if as == nil {
		return nil
	}
	return os.Chown(path, int(as.Uid), int(as.Gid))
}

// runContext runs a short program and returns what it printed. It kills the program when ctx ends.
func runContext(ctx context.Context, cmd *exec.Cmd) ([]byte, error) {
	killable := exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	killable.Dir, killable.SysProcAttr = cmd.Dir, cmd.SysProcAttr
	return killable.CombinedOutput()
}
