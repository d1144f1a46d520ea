package leader_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// goroutines counts those that carry the label, which a goroutine inherits from the one that started it: other tests run in
// this process too. It returns their stacks with it.
func goroutines(t *testing.T, label string) (count int, stacks string) {
	t.Helper()
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	var found strings.Builder
	for record := range strings.SplitSeq(profile.String(), "\n\n") {
		if !strings.Contains(record, label) {
			continue
		}
		found.WriteString(record + "\n\n")
		for line := range strings.Lines(record) {
			var n int
			if _, err := fmt.Sscanf(line, "%d @ ", &n); err == nil {
				count += n
			}
		}
	}
	return count, found.String()
}

// R7, R8, R13, L21: 200 losses, 100 000 contexts of a term and a black hole leave no goroutine behind but those of pgx, which
// may take 15 s to close a connection.
func TestFaultGoroutinesReturnToTheirBaseline(t *testing.T) {
	t.Parallel()
	const closing = 15 * time.Second
	db := pgtest.Database(t)
	admin := db.Connect(t)
	proxy, through := behind(t, db.Server) // started here, so that it does not count
	label := fmt.Sprintf("%s %p", t.Name(), t)
	pprof.Do(context.Background(), pprof.Labels("test", label), func(context.Context) {
		r := newReplica(t, db.Pool(t, through), quick/4).run(t)
		awaitLeader(t, r)
		baseline, stacks := goroutines(t, label)
		if baseline < 2 { // this one and Run's
			t.Fatalf("%d goroutines carry the label:\n%s", baseline, stacks)
		}
		back := func() {
			t.Helper()
			awaitLeader(t, r)
			pgtest.Eventually(t, closing+lateness, fmt.Sprint("no more than ", baseline, " goroutines"), func() (bool, string) {
				now, stacks := goroutines(t, label)
				return now <= baseline, fmt.Sprint(now, "\n", stacks)
			})
		}
		for range 200 {
			pid := awaitHolder(t, admin)
			terminate(t, admin, pid)
			pgtest.Eventually(t, patience, "another backend holds the lock", func() (bool, string) {
				pids := holders(t, admin)
				return len(pids) == 1 && pids[0] != pid, fmt.Sprint(pids)
			})
		}
		back()
		joinTerms(t, r, 100_000)
		back()
		proxy.Cut()
		pgtest.Eventually(t, patience, "the loss and three failed attempts", func() (bool, string) {
			return len(r.logs.With("no answer within one check interval")) >= 4, strings.Join(r.logs.With(""), "\n")
		})
		proxy.Heal()
		back()
	})
}

// joinTerms asks the leader for n contexts and cancels each. Their parent lives on.
func joinTerms(t *testing.T, r *replica, n int) {
	t.Helper()
	for joined := 0; joined < n; {
		_, cancel, ok := r.Term(t.Context())
		cancel()
		if ok {
			joined++
		} else {
			awaitLeader(t, r)
		}
	}
}
