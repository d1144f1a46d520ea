package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// T8: three replicas whose leader is killed every five seconds, for as long as asked: every row that falls due is handled once, on a replica that
// might, and no replica that answers reports a probe that fails.
func TestSoakHandlesEveryRowOnce(t *testing.T) {
	length := 15 * time.Second
	if text := os.Getenv("LEADER_SOAK_SECONDS"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("LEADER_SOAK_SECONDS=%s: want a whole number", text)
		}
		length = time.Duration(seconds) * time.Second
	}
	d := startDemo(t, "--check-interval=1s", "--loop-interval=200ms", "--kill-leader-every=5s", "--duration="+length.String())
	if code := d.exitCode(t); code != exitOK {
		t.Errorf("exit code %d, want 0:\n%s", code, d.Out)
	}
	if strings.Contains(d.Out.String(), "not ready") {
		t.Errorf("a probe failed though no loop did:\n%s", d.Out)
	}
	end := d.await(t, `at the end plexsphere-\d leads; (\d+) changes of the leader seen, (\d+) replicas killed`)
	kills, err := strconv.Atoi(end[2])
	if err != nil || kills < int(length/(10*time.Second)) {
		t.Errorf("%s replicas killed in %v", end[2], length)
	}
	books := d.await(t, `(\d+) rows fell due, each was handled once and in time.*`)
	t.Logf("%v: %s kills, %s changes of the leader: %s", length, end[2], end[1], regexp.MustCompile(`\s+`).ReplaceAllString(books[0], " "))
	d.requireNothingLeft(t)
}
