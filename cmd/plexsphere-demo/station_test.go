package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/internal/child"
	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// TestMain lets the test binary stand in for the program where a test starts replicas.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "replica" {
		main()
	}
	pgtest.Main(m)
}

// station is one Prometheus and one Alertmanager over many deployments, most of them on one server, as people run them. So a page that names the
// wrong deployment shows too.
type station struct {
	*monitor
	victims map[string]*victim
	// starting is held while processes start. Many at once would keep the two processors of a small machine from the others' checks.
	starting sync.Mutex
}

// victim is a deployment to which something happens.
type victim struct {
	*deployment
	*station
	server   *pgserver.Server
	database string
}

// newStation starts three replicas and an exporter for each scenario, and waits until all is well and Prometheus sees it.
func newStation(t *testing.T, opts upOptions, scenarios []scenario) *station {
	t.Helper()
	s := &station{victims: make(map[string]*victim)}
	server := pgtest.Cluster(t, pgserver.Options{Settings: map[string]string{"max_connections": "500"}})
	for _, sc := range scenarios {
		own := server
		if sc.ownServer {
			own = pgtest.Cluster(t, pgserver.Options{})
		}
		theirs := opts
		if sc.loopInterval > 0 {
			theirs.loopInterval = sc.loopInterval
		}
		s.victims[sc.name] = s.newVictim(t, own, sc.name, theirs)
	}
	forEach(t, "start", 2, scenarios, func(t *testing.T, sc scenario) {
		v := s.victims[sc.name]
		if err := v.startAll(); err != nil {
			t.Fatal(err)
		}
		v.awaitLeader(t)
	})
	if t.Failed() {
		t.FailNow()
	}
	var deployments []*deployment
	for _, v := range s.victims {
		deployments = append(deployments, v.deployment)
	}
	var err error
	s.monitor, err = startMonitor(t.TempDir(), opts, deployments...)
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range s.victims {
		s.await(t, "Prometheus scrapes all of "+v.name, func() (bool, string) {
			return s.scrapes(context.Background(), v.deployment), ""
		})
	}
	return s
}

// forEach runs a subtest for each scenario, so many at the same time. t.Parallel would run as many as there are processors, and these wait most of the time.
func forEach(t *testing.T, verb string, atOnce int, scenarios []scenario, run func(t *testing.T, sc scenario)) {
	t.Helper()
	var running sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for _, sc := range scenarios {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			t.Run(verb+" "+sc.name, func(t *testing.T) { run(t, sc) })
		})
	}
	running.Wait()
}

// newVictim makes a database with an owner that is no superuser, and chooses addresses.
func (s *station) newVictim(t *testing.T, server *pgserver.Server, name string, opts upOptions) *victim {
	t.Helper()
	v := &victim{station: s, server: server, database: name}
	v.createDatabase(t, name)
	var err error
	if v.deployment, err = newDeployment(t.TempDir(), name, v.plain(name), opts); err != nil {
		t.Fatal(err)
	}
	v.watched = server.DSN(name)
	t.Cleanup(func() {
		if err := stop(v.processes()...); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%s: exporter:\n%s\nreplica 1:\n%s", name, v.logTail("leader-exporter"), v.logTail("plexsphere-1"))
		}
	})
	return v
}

// createDatabase makes a database that belongs to a plain role of that name.
func (v *victim) createDatabase(t *testing.T, name string) {
	t.Helper()
	for _, sql := range []string{"CREATE ROLE " + name + " LOGIN", "CREATE DATABASE " + name + " OWNER " + name} {
		if err := v.server.Exec(t.Context(), "postgres", sql); err != nil {
			t.Fatal(err)
		}
	}
}

// plain is the connection string of a database for the role to which it belongs.
func (v *victim) plain(database string) string {
	return strings.Replace(v.server.DSN(database), "postgres@", database+"@", 1)
}

// exec runs a statement in the victim's database as the superuser.
func (v *victim) exec(t *testing.T, sql string) {
	t.Helper()
	if err := v.server.Exec(t.Context(), v.database, sql); err != nil {
		t.Fatal(err)
	}
}

// endLeader ends the session that holds the lock.
func (v *victim) endLeader(t *testing.T) {
	t.Helper()
	v.exec(t, `SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database d ON d.oid = database
		WHERE locktype = 'advisory' AND granted AND classid = 1886156915 AND objsubid = 2 AND datname = current_database()`)
}

// restart stops replicas, all of them at once, and starts them again with more flags.
func (v *victim) restart(t *testing.T, flags []string, replicas ...*replicaProcess) {
	t.Helper()
	v.starting.Lock()
	defer v.starting.Unlock()
	v.stopReplicas(t, replicas...)
	for _, r := range replicas {
		if err := v.startReplica(r, flags...); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range replicas {
		v.await(t, r.name+" of "+v.name+" is up", func() (bool, string) {
			_, err := scrape(context.Background(), r.address)
			return err == nil, fmt.Sprint(err, v.fault())
		})
	}
}

// replace restarts all replicas one by one, with one change of the leader: the one that leads comes last.
func (v *victim) replace(t *testing.T, flags ...string) {
	t.Helper()
	v.awaitLeader(t)
	leader := v.look(t.Context()).holder
	leads := func(r *replicaProcess) bool { return r.name == leader }
	replicas := slices.DeleteFunc(slices.Clone(v.replicas), leads)
	if i := slices.IndexFunc(v.replicas, leads); i >= 0 {
		replicas = append(replicas, v.replicas[i])
	}
	for _, r := range replicas {
		v.restart(t, flags, r)
	}
}

func (v *victim) stopReplicas(t *testing.T, replicas ...*replicaProcess) {
	t.Helper()
	var processes []*child.Child
	for _, r := range replicas {
		processes = append(processes, r.process)
	}
	if err := stop(processes...); err != nil {
		t.Fatal(err)
	}
}

// watch lets the exporter watch another database.
func (v *victim) watch(t *testing.T, dsn string) {
	t.Helper()
	v.starting.Lock()
	defer v.starting.Unlock()
	v.watched = dsn
	if err := stop(v.exporter); err != nil {
		t.Fatal(err)
	}
	if err := v.startExporter(); err != nil {
		t.Fatal(err)
	}
}

// awaitLeader waits until exactly one replica claims to lead and the exporter says the same.
func (v *victim) awaitLeader(t *testing.T) {
	t.Helper()
	v.await(t, "one replica of "+v.name+" leads", func() (bool, string) {
		if err := v.fault(); err != nil {
			t.Fatal(err)
		}
		seen := v.look(context.Background())
		return seen.agrees(), seen.String()
	})
}

// await looks five times a second: many wait at the same time.
func (s *station) await(t *testing.T, fact string, look func() (bool, string)) {
	t.Helper()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	pgtest.Eventually(t, longest, fact, func() (bool, string) {
		<-ticker.C
		return look()
	})
}

// awaitAnswer waits until Prometheus has an answer that is not empty.
func (s *station) awaitAnswer(t *testing.T, promql string) {
	t.Helper()
	s.await(t, promql, func() (bool, string) {
		answer, err := s.query(context.Background(), promql)
		return err == nil && !emptyAnswer(answer), fmt.Sprint(answer, err)
	})
}

// fired returns the alerts of the deployment that fired in Prometheus, muted or not.
func (s *station) fired(t *testing.T, deployment string) []string {
	t.Helper()
	answer, err := s.query(t.Context(), fmt.Sprintf(`count by (alertname) (max_over_time(ALERTS{deployment=%q,alertstate="firing"}[15m]))`, deployment))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, match := range regexp.MustCompile(`"alertname":"(\w+)"`).FindAllStringSubmatch(answer, -1) {
		names = append(names, match[1])
	}
	slices.Sort(names)
	return names
}

// arrived returns the pages about an alert of the deployment, in their order.
func (s *station) arrived(deployment, alert string) []page {
	var found []page
	for _, p := range s.pages.after(0) {
		if p.Labels["deployment"] == deployment && p.Labels["alertname"] == alert {
			found = append(found, p)
		}
	}
	return found
}

// buildExporter builds the exporter as a user would.
func buildExporter(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "leader-exporter")
	if out, err := exec.Command("go", "build", "-o", path, "../leader-exporter").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}
