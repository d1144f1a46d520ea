package leader_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// asked returns how often the replicas have borrowed a connection, which is how often they have asked for the lock.
func asked(replicas []*replica) (n int64) {
	for _, r := range replicas {
		n += r.pool.Stat().AcquireCount()
	}
	return n
}

// awaitAsked waits until each replica that does not lead has asked for the lock n times more.
func awaitAsked(t *testing.T, replicas []*replica, n int64) {
	t.Helper()
	want := make([]int64, len(replicas))
	for i, r := range replicas {
		want[i] = r.pool.Stat().AcquireCount() + n
	}
	pgtest.Eventually(t, patience, fmt.Sprint(n, " checks of each standby"), func() (bool, string) {
		for i, r := range replicas {
			if got := r.pool.Stat().AcquireCount(); got < want[i] && !r.IsLeader() {
				return false, fmt.Sprintf("standby %d: %d checks of %d; log:\n%s", i, got, want[i], strings.Join(r.logs.With(""), "\n"))
			}
		}
		return true, ""
	})
}

// R1, R2, R10, L38: twenty standbys wait for a leader that stops. One of them leads within an interval, at no moment do two, and
// none asks far more often than once an interval: a check that was late is followed by the next at once.
func TestFaultOneOfTwentyStandbysFollows(t *testing.T) {
	t.Parallel()
	server := pgtest.Cluster(t, pgserver.Options{}) // some forty connections at a time
	db := &pgtest.DB{DSN: server.DSN("postgres"), Server: server}
	var history leadertest.History
	start := func(name string) *replica {
		return newReplica(t, db.Pool(t, func(c *pgxpool.Config) { c.MaxConns = 1 }), slowCheck, func(c *leader.Config) {
			c.Registerer = history.Registerer(name)
		}).run(t)
	}
	first := start("first")
	awaitLeader(t, first)
	const crowd = 20
	standbys := make([]*replica, crowd)
	for i := range standbys {
		standbys[i] = start(fmt.Sprint("standby", i))
	}
	awaitAsked(t, standbys, 1)
	before, stopped := asked(standbys), time.Now()
	first.stop()
	<-first.returned
	pgtest.Eventually(t, patience, "a standby leads", func() (bool, string) { return len(leaders(standbys)) > 0, "nobody" })
	if took := time.Since(stopped); took > slowCheck+lateness {
		t.Errorf("the next leader came after %v, want at most one interval", took)
	}
	next := leaders(standbys)
	awaitAsked(t, standbys, 2)
	if number, most := asked(standbys)-before, crowd*(2*int64(time.Since(stopped)/slowCheck)+2); number > most {
		t.Errorf("%d lock statements in %v, want at most %d", number, time.Since(stopped), most)
	}
	if got := leaders(standbys); !slices.Equal(got, next) || len(got) != 1 {
		t.Errorf("%d lead, then %d; want one and the same", len(next), len(got))
	}
	requireOneAtATime(t, history.Events())
}

// requireOneAtATime fails when two terms of the history overlap. They are recorded as the electors change their state.
func requireOneAtATime(t *testing.T, events []leadertest.Event) {
	t.Helper()
	leads := make(map[string]bool)
	terms := 0
	for _, e := range events {
		switch e.Kind {
		case leadertest.TermBegan:
			leads[e.Replica] = true
			terms++
		case leadertest.TermEnded:
			delete(leads, e.Replica)
		}
		if len(leads) > 1 {
			t.Errorf("at %v %v lead", e.At, slices.Sorted(maps.Keys(leads)))
		}
	}
	if terms != 2 {
		t.Errorf("%d terms, want 2: %v", terms, events)
	}
}

// R16, L14, L35: after one full cycle the registry holds the metrics that docs/leader.md names, and no other; promlint has
// nothing to say.
func TestFaultCycleShowsEveryMetricOfTheDocs(t *testing.T) {
	t.Parallel()
	const document = "../docs/leader.md"
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`plexsphere_[a-z_]+[a-z]`).FindAllString(string(text), -1)
	slices.Sort(named)
	named = slices.Compact(named)
	if len(named) == 0 {
		t.Fatalf("%s names no metric", document)
	}
	db := pgtest.Database(t)
	admin := db.Connect(t)
	r := newReplica(t, db.Pool(t), quick).run(t)
	awaitLeader(t, r)
	r.requireLeader(t)
	terminate(t, admin, awaitHolder(t, admin))
	pgtest.Eventually(t, patience, "the loss", func() (bool, string) {
		return len(r.logs.With("WARN background leader lock lost")) > 0, strings.Join(r.logs.With(""), "\n")
	})
	awaitLeader(t, r)
	r.stop()
	<-r.returned
	r.requireStandby(t)
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var gathered []string
	for _, family := range families {
		gathered = append(gathered, family.GetName())
	}
	if slices.Sort(gathered); !slices.Equal(gathered, named) {
		t.Errorf("gathered %q, %s names %q", gathered, document, named)
	}
	requireLint(t, r)
}
