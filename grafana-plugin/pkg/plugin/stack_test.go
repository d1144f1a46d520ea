package plugin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend/log"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/exporter"
)

// deadline is how long a test waits for a fact.
const deadline = 20 * time.Second

// stack is what the tests of this package share: a PostgreSQL, and the programs. It is set by TestMain.
var stack struct { //nolint:gochecknoglobals // written by TestMain alone, before the tests
	folder, pluginBinary, exporterBinary string
}

func TestMain(m *testing.M) {
	log.DefaultLogger = log.NewNullLogger() // the SDK logs each query
	os.Exit(func() int {
		stop, err := startStack()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer stop()
		return m.Run()
	}())
}

// startStack builds the exporter and the plugin, and starts a throw-away PostgreSQL, as user postgres when this is root.
func startStack() (stop func(), err error) {
	if stack.folder, err = os.MkdirTemp("", "leader-plugin-"); err != nil {
		return nil, err
	}
	remove := func() { _ = os.RemoveAll(stack.folder) }
	stack.exporterBinary, stack.pluginBinary = filepath.Join(stack.folder, "leader-exporter"), filepath.Join(stack.folder, "gpx_leader")
	for _, args := range [][]string{
		{"-C", "../../..", "build", "-p", "1", "-trimpath", "-o", stack.exporterBinary, "./cmd/leader-exporter"},
		{"build", "-p", "1", "-trimpath", "-tags", "arrow_json_stdlib", "-o", stack.pluginBinary, ".."},
	} {
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			remove()
			return nil, fmt.Errorf("go %v: %w\n%s", args, err, out)
		}
	}
	end, err := startPostgres()
	if err != nil {
		remove()
		return nil, err
	}
	return func() { end(); remove() }, nil
}

func startPostgres() (stop func(), err error) {
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if path, err := exec.LookPath("initdb"); err == nil {
		folders = append(folders, filepath.Dir(path))
	}
	if folder := os.Getenv("LEADER_EXPORTER_PG_BIN"); folder != "" {
		folders = append(folders, folder)
	}
	if len(folders) == 0 {
		return nil, errors.New("no PostgreSQL server found: run tools/setup.sh postgresql")
	}
	bin, data := folders[len(folders)-1], filepath.Join(stack.folder, "pg")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Geteuid() == 0 {
		if err := giveToPostgres(attr, data); err != nil {
			return nil, err
		}
	}
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "--no-sync", "--auth=trust", "--username=postgres")
	initdb.SysProcAttr, initdb.Dir = attr, "/"
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", data, "-c", "fsync=off", "-c", "listen_addresses=")
	server.SysProcAttr, server.Dir = attr, "/"
	runtime.LockOSThread() // Pdeathsig comes with the end of this thread: it is that of TestMain
	if err := server.Start(); err != nil {
		return nil, err
	}
	stop = func() { _ = server.Process.Signal(syscall.SIGQUIT); _ = server.Wait() }
	for end := time.Now().Add(deadline); ; time.Sleep(20 * time.Millisecond) {
		if out, err := psql("postgres", "SELECT 1"); err == nil {
			return stop, nil
		} else if time.Now().After(end) {
			stop()
			return nil, fmt.Errorf("PostgreSQL does not answer: %w: %s", err, out)
		}
	}
}

// giveToPostgres makes user postgres the owner of the folder, and of what is started with attr.
func giveToPostgres(attr *syscall.SysProcAttr, folder string) error {
	owner, err := user.Lookup("postgres")
	if err != nil {
		return err
	}
	uid, err := strconv.ParseUint(owner.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(owner.Gid, 10, 32)
	if err != nil {
		return err
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return errors.Join(os.Chmod(stack.folder, 0o755), os.Chown(folder, int(uid), int(gid)))
}

// dsn goes to the socket in the server's own folder, so that no other program can have its port.
func dsn(database string) string {
	return fmt.Sprintf("postgres://postgres@/%s?host=%s", database, url.QueryEscape(filepath.Join(stack.folder, "pg")))
}

func psql(database, sql string) (string, error) {
	out, err := exec.Command("psql", "-XAtqc", sql, dsn(database)).CombinedOutput()
	return string(out), err
}

// newDatabase makes a database of the test's own.
func newDatabase(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("t%d", time.Now().UnixNano())
	if out, err := psql("postgres", "CREATE DATABASE "+name); err != nil {
		tb.Fatal(err, out)
	}
	return name
}

// lead takes the leader's lock in the database, under the application_name, until release.
func lead(tb testing.TB, database, name string) (release func()) {
	tb.Helper()
	session := exec.Command("psql", "-XAtq", dsn(database))
	session.Env = append(os.Environ(), "PGAPPNAME="+name)
	in, err := session.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := session.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := session.Start(); err != nil {
		tb.Fatal(err)
	}
	if _, err := io.WriteString(in, "SELECT pg_try_advisory_lock(1886156915, 1);\n"); err != nil {
		tb.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "t\n" {
		tb.Fatalf("the lock is not granted: %q, %v", line, err)
	}
	done := false
	release = func() {
		if !done {
			done = true
			_ = in.Close()
			_ = session.Wait()
		}
	}
	tb.Cleanup(release)
	return release
}

// process is a running exporter.
type process struct {
	url string
	cmd *exec.Cmd
}

// pollInterval is short, so that tests are. What was polled is known for three times as long: on a busy machine, where these
// tests run at the lowest priority, an exporter may fall silent for longer now and then, and what asks for the present waits for it.
const pollInterval = 500 * time.Millisecond

// startExporter starts one that watches the lock in the database; flags come last. With address it listens there.
func startExporter(tb testing.TB, source, address string, flags ...string) *process {
	tb.Helper()
	cmd := exec.Command(stack.exporterBinary, append([]string{
		"--poll.interval=" + pollInterval.String(), "--poll.max-duty-cycle=1", "--web.listen-address=" + address,
	}, flags...)...)
	cmd.Env = append(os.Environ(), "LEADER_EXPORTER_DSN="+source)
	logged, err := cmd.StderrPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	p := &process{cmd: cmd}
	tb.Cleanup(p.stop)
	lines := bufio.NewScanner(logged)
	for lines.Scan() {
		if _, found, ok := strings.Cut(lines.Text(), `msg="Listening on" address=`); ok {
			p.url = "http://" + strings.TrimSpace(found)
			break
		}
	}
	go func() {
		for lines.Scan() { // so that the exporter never waits for us
		}
	}()
	if p.url == "" {
		tb.Fatal("the exporter does not say where it listens")
	}
	return p
}

func (p *process) stop() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// locks asks the exporter itself.
func (p *process) locks(tb testing.TB) (locks exporter.Locks) {
	tb.Helper()
	response, err := http.Get(p.url + "/api/v1/locks")
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&locks); err != nil {
		tb.Fatal(err)
	}
	return locks
}

// await waits until the exporter says that the holder leads, or nobody if the name is empty.
func (p *process) await(tb testing.TB, name string) {
	tb.Helper()
	eventually(tb, func() (bool, any) {
		got := p.locks(tb)
		return slices.ContainsFunc(got.Locks, func(l exporter.Lock) bool {
			if name == "" {
				return l.Verdict == exporter.Unheld
			}
			return l.Holder != nil && l.Holder.ApplicationName != nil && *l.Holder.ApplicationName == name
		}), got
	})
}

// eventually waits for a fact, and prints what there is instead when it does not come.
func eventually(tb testing.TB, is func() (ok bool, state any)) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	for {
		ok, state := is()
		if ok {
			return
		}
		if ctx.Err() != nil {
			tb.Fatalf("waited %v; what there is: %+v", deadline, state)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
