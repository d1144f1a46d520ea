package history_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/plexsphere/leader-exporter/history"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// writerEnv names the file in the environment of a test binary that is to write it; writerTarget the target.
const (
	writerEnv    = "HISTORY_TEST_WRITES"
	writerTarget = "HISTORY_TEST_TARGET"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		fmt.Fprintln(os.Stderr, write(path, os.Getenv(writerTarget)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// write puts terms until it is killed: each one open, and then ended. It prints a line before it begins, and
// then the number of what it has put; an odd one is of an end.
func write(path, target string) error {
	fmt.Fprintln(os.Stdout, "opening")
	s, err := history.Open(history.Config{Path: path})
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		if err := s.Put(target, written(n)); err != nil {
			return err
		}
		fmt.Fprintln(os.Stdout, n)
	}
}

// written returns the term that write puts at that step.
func written(n int) lockwatch.Term {
	if n%2 == 0 {
		return open(n/2, 1)
	}
	return ended(n/2, n/2+1, 1)
}

// TestTermsThatPutHasAcknowledgedOutliveKillNine: I1. A process that writes is killed at random moments, at its start too, and
// each time the file must be whole and have all terms of which it said so.
func TestTermsThatPutHasAcknowledgedOutliveKillNine(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	path, acknowledged := "", map[string]int{}
	sum := 0
	for round := range 50 {
		least, within := 1+random.IntN(20), 3*time.Millisecond
		if round%4 == 0 { // a new file, and a kill while it is made
			path, acknowledged = filepath.Join(t.TempDir(), "history.db"), map[string]int{}
			least, within = 0, 20*time.Millisecond
		}
		target := fmt.Sprint("round ", round)
		n := killedWriter(t, path, target, least, time.Duration(random.Int64N(int64(within))))
		acknowledged[target] = n
		sum += n
		requireWritten(t, path, acknowledged)
		if t.Failed() {
			t.Fatalf("round %d, after %d acknowledged", round, n)
		}
	}
	t.Logf("%d puts were acknowledged in 50 lives", sum)
}

// killedWriter starts a writer, kills it that long after the least number of puts, and returns how many it has acknowledged.
func killedWriter(t *testing.T, path, target string, least int, after time.Duration) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), writerEnv+"="+path, writerTarget+"="+target)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, count := bufio.NewScanner(stdout), 0
	if !lines.Scan() {
		t.Fatalf("the writer did not begin: %v", lines.Err())
	}
	for count < least && lines.Scan() {
		count++
	}
	kill := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	for lines.Scan() {
		count++
	}
	if _, err := io.Copy(io.Discard, stdout); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
		t.Fatalf("the writer ended by itself: %v", err)
	}
	return count
}

// requireWritten fails the test unless the file is whole and has what the writers acknowledged, and at most one more step of each.
func requireWritten(t *testing.T, path string, acknowledged map[string]int) {
	t.Helper()
	s, err := history.Open(history.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for target, n := range acknowledged {
		got := all(t, s, history.Query{Target: target, Limit: 1000})
		if len(got) < (n+1)/2 || len(got) > n/2+1 {
			t.Errorf("%s: %d terms after %d acknowledged puts", target, len(got), n)
			continue
		}
		for i, e := range got {
			term := len(got) - 1 - i
			before, after := written(2*term), written(2*term+1)
			if isOpen := e.End.IsZero(); isOpen && 2*term+1 < n || !isOpen && 2*term+1 > n {
				t.Errorf("%s: term %d has end %v after %d acknowledged puts", target, term, e.End, n)
			} else if isOpen {
				same(t, target, e.Term, before)
			} else {
				same(t, target, e.Term, after)
			}
		}
		open := openTerms(t, s, target)
		if len(open) > 1 || (len(open) == 1) != (len(got) > 0 && got[0].End.IsZero()) {
			t.Errorf("%s: open terms %v; the newest is %v", target, open, got[:min(1, len(got))])
		}
	}
	if err := s.Put("parent", open(0, uint32(len(acknowledged)))); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	requireConsistent(t, path)
}

// requireConsistent fails the test where bbolt's own check finds something.
func requireConsistent(t *testing.T, path string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
