package child_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/internal/child"
)

// parentMode makes the test binary a parent that starts a child, prints its id and waits to be killed.
const parentMode = "CHILD_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentMode) == "" {
		os.Exit(m.Run())
	}
	c, err := child.Start(exec.Command("sleep", "3600"), syscall.SIGKILL)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(c.PID())
	<-c.Done()
}

func TestChildDiesWithItsKilledParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentMode+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if !isRunning(pid) {
		t.Fatalf("child %d is not running", pid)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	for begin := time.Now(); isRunning(pid); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("child %d outlives its killed parent", pid)
		}
	}
}

// isRunning reports whether a process of that id exists and is no zombie.
func isRunning(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

func TestStopWaitsForTheEnd(t *testing.T) {
	c, err := child.Start(exec.Command("sleep", "3600"), syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(t.Context(), syscall.SIGTERM); err != nil {
		t.Errorf("Stop: %v", err)
	}
	var exit *exec.ExitError
	if !errors.As(c.Err(), &exit) {
		t.Errorf("Err = %v, want the signal", c.Err())
	}
	if err := c.Stop(t.Context(), syscall.SIGTERM); err != nil {
		t.Errorf("Stop again: %v, want nil", err)
	}
}

func TestStopKillsTheGroupOfAProcessThatDoesNotListen(t *testing.T) {
	cmd := exec.Command("sh", "-c", `trap "" TERM; sleep 3600 & echo $!; wait`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Stop(ctx, syscall.SIGTERM); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop = %v, want a killed process", err)
	}
	for begin := time.Now(); isRunning(grandchild); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("grandchild %d outlives its group", grandchild)
		}
	}
}

func TestStartNamesWhatIsMissing(t *testing.T) {
	if _, err := child.Start(exec.Command("/no/such/program"), syscall.SIGKILL); err == nil || !strings.Contains(err.Error(), "child: start /no/such/program") {
		t.Errorf("Start of a missing program: %v", err)
	}
}
