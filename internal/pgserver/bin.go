package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// BinVariable is the environment variable that names the folder of the server's programs.
const BinVariable = "LEADER_EXPORTER_PG_BIN"

// binFolder finds the folder that holds initdb and postgres: the one in BinVariable, else that of the initdb on PATH, else
// the newest that Debian's packages installed.
func binFolder() (string, error) {
	if folder := os.Getenv(BinVariable); folder != "" {
		if !holdsServer(folder) {
			return "", fmt.Errorf("%s=%s: no initdb and postgres in that folder", BinVariable, folder)
		}
		return folder, nil
	}
	if initdb, err := exec.LookPath("initdb"); err == nil {
		if target, err := filepath.EvalSymlinks(initdb); err == nil && holdsServer(filepath.Dir(target)) {
			return filepath.Dir(target), nil
		}
	}
	folders, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.SortFunc(folders, func(a, b string) int { return majorOf(b) - majorOf(a) })
	for _, folder := range folders {
		if holdsServer(folder) {
			return folder, nil
		}
	}
	return "", errors.New("no PostgreSQL server found: looked at " + BinVariable +
		", at initdb on PATH, and in /usr/lib/postgresql/*/bin; on Debian: apt-get install postgresql")
}

func holdsServer(folder string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(folder, program)); err != nil {
			return false
		}
	}
	return true
}

// majorOf returns 15 for /usr/lib/postgresql/15/bin and 0 for what is no number.
func majorOf(folder string) int {
	major, _ := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
	return major
}

// Owner returns as whom a server runs that refuses root: nil for the present user, and user postgres for root. It fails when
// root has no such user. It is safe from any goroutine.
func Owner() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("servers refuse to run as root, and there is no user postgres: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user id of postgres: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("group id of postgres: %w", err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// command prepares a program of the server's folder, to run as its owner.
func command(as *syscall.Credential, folder, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(folder, program), args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	return cmd
}
