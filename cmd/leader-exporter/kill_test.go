package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/history"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/internal/syncbuf"
)

// tenure is a term as it really was, by the server's clock.
type tenure struct {
	pid            uint32
	begin, locked  time.Time // just before the lock was asked for, and just after it was granted
	unlocking, end time.Time // just before it was given back, and just after
}

// changeLeaders lets one session after the other hold the lock, until ctx ends, and returns what it did.
func changeLeaders(ctx context.Context, dsn string) (tenures []tenure, err error) {
	around := func(conn *pgx.Conn, call string) (before, after time.Time, err error) {
		err = conn.QueryRow(context.WithoutCancel(ctx), "SELECT statement_timestamp(), clock_timestamp() FROM (SELECT "+call+"(1886156915, 1) OFFSET 0) AS done").
			Scan(&before, &after)
		return before, after, err
	}
	for ctx.Err() == nil {
		conn, err := pgx.Connect(context.WithoutCancel(ctx), dsn)
		if err != nil {
			return tenures, err
		}
		t := tenure{pid: conn.PgConn().PID()}
		if t.begin, t.locked, err = around(conn, "pg_advisory_lock"); err != nil {
			return tenures, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(rand.Int64N(int64(80 * time.Millisecond)))):
		}
		if t.unlocking, t.end, err = around(conn, "pg_advisory_unlock"); err != nil {
			return tenures, err
		}
		tenures = append(tenures, t)
		if err := conn.Close(context.WithoutCancel(ctx)); err != nil {
			return tenures, err
		}
	}
	return tenures, nil
}

// written returns the terms of a history file, oldest first.
func written(t *testing.T, path string) (terms []history.Entry) {
	t.Helper()
	store, err := history.OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for q := (history.Query{Limit: 1000}); ; {
		page, err := store.Terms(q)
		if err != nil {
			t.Fatal(err)
		}
		terms = append(terms, page.Terms...)
		if q.Cursor = page.Next; q.Cursor == "" {
			slices.Reverse(terms)
			return terms
		}
	}
}

// The exporter is killed 50 times at random while leaders change: its history stays readable, keeps what was written, and has
// no term twice and none that was not.
func TestLoadHistorySurvivesKills(t *testing.T) {
	db := pgtest.Database(t)
	ctx, stop := context.WithCancel(t.Context())
	var changing sync.WaitGroup
	var truth []tenure
	changing.Go(func() {
		var err error
		if truth, err = changeLeaders(ctx, db.DSN); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(t.TempDir(), "history")
	var before []history.Entry
	for life := range 50 {
		output := &syncbuf.Buffer{}
		exporter := exec.Command("leader-exporter", "--poll.interval=5ms", "--poll.max-duty-cycle=1", "--web.listen-address=127.0.0.1:0", "--history.path="+path)
		exporter.Env = append(exporter.Environ(), "LEADER_EXPORTER_DSN="+db.DSN)
		exporter.Stdout, exporter.Stderr = output, output
		if err := exporter.Start(); err != nil {
			t.Fatal(err)
		}
		if life%5 != 0 { // one in five is killed as it starts
			pgtest.Eventually(t, patience, "the exporter serves", func() (bool, string) {
				return listening.MatchString(output.String()), output.String()
			})
		}
		time.Sleep(time.Duration(rand.Int64N(int64(400 * time.Millisecond)))) // the moment of the kill is to be any
		if err := exporter.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = exporter.Wait() // it was killed
		if strings.Contains(output.String(), "level=ERROR") {
			t.Fatalf("life %d: %s", life, output)
		}
		if _, err := os.Stat(path); life == 0 && errors.Is(err, os.ErrNotExist) {
			continue // killed before it made the file
		}
		now := written(t, path)
		requireKept(t, before, now)
		before = now
	}
	stop()
	changing.Wait()
	requireTrue(t, before, truth)
	fmt.Printf("50 kills: %d of %d terms in the history\n", len(before), len(truth))
	if len(before) < len(truth)/5 {
		t.Errorf("%d of %d terms in the history", len(before), len(truth))
	}
}

// requireKept requires that each term is still there, with the end that it had.
func requireKept(t *testing.T, before, now []history.Entry) {
	t.Helper()
	for _, old := range before {
		i := slices.IndexFunc(now, func(e history.Entry) bool {
			return e.Holder.PID == old.Holder.PID && e.Holder.TermStart.Equal(old.Holder.TermStart)
		})
		if i < 0 || !old.End.IsZero() && !now[i].End.Equal(old.End) {
			t.Fatalf("the term %+v was written, and is now gone or another", old)
		}
	}
}

// requireTrue requires that each term of the history is a part of one that really was, and of none that another one is a part of.
func requireTrue(t *testing.T, terms []history.Entry, truth []tenure) {
	t.Helper()
	taken := make(map[int]bool)
	for _, e := range terms {
		i := slices.IndexFunc(truth, func(was tenure) bool {
			seen := e.LastSeen
			if seen.Equal(e.Holder.TermStart) {
				seen = e.Holder.TermStart.Add(-time.Second) // one poll saw it, and took no longer
			}
			return was.pid == e.Holder.PID && !e.Holder.TermStart.Before(was.begin) && !seen.After(was.end)
		})
		if i < 0 {
			t.Errorf("the term of backend %d from %v to %v, last seen %v, never was", e.Holder.PID, e.Holder.TermStart, e.End, e.LastSeen)
			continue
		}
		if taken[i] {
			t.Errorf("the term of backend %d from %v on is in the history twice", truth[i].pid, truth[i].begin)
		}
		taken[i] = true
		if !e.End.IsZero() && e.End.Before(truth[i].unlocking) || e.After.After(truth[i].locked) {
			t.Errorf("the term of backend %d began after %v and ended before %v; it really was from %v to %v",
				e.Holder.PID, e.After, e.End, truth[i].locked, truth[i].unlocking)
		}
	}
}
