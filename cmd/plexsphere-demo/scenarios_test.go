package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// scenario is what happens to a deployment, whom that pages, and how it is mended. Its name is that of the deployment.
type scenario struct {
	name         string
	ownServer    bool
	long         int           // more is longer
	loopInterval time.Duration // 0 is a long one
	pages        []expected
	muted        []string // alerts that fire and reach nobody
	strike       func(t *testing.T, v *victim)
	heal         func(t *testing.T, v *victim)
}

// expected is a page. Its texts are as templates expand them for these intervals; a label * is any value.
type expected struct {
	alert, severity string
	labels          map[string]string // but for alertname, severity and deployment
	summary         string
	description     string // its beginning
}

// scenarios returns all, those that take long first.
func scenarios() []scenario {
	all := slices.Concat(scenariosOfWork(), scenariosOfLeader(), scenariosOfExporter())
	slices.SortStableFunc(all, func(a, b scenario) int { return cmp.Compare(b.long, a.long) })
	return all
}

// scenariosOfLeader are about who claims to lead.
func scenariosOfLeader() []scenario {
	const lockFunction = "EXECUTE ON FUNCTION pg_try_advisory_lock(int, int)"
	var thief *pgx.Conn
	return []scenario{
		{
			name: "revoked",
			pages: []expected{{
				"BackgroundLeaderMissing", "critical", nil, "Nobody leads the background work of deployment revoked.",
				"For at least 6s, 0 replicas of deployment revoked have claimed to lead, and no session was seen to hold the lock.",
			}},
			strike: func(t *testing.T, v *victim) {
				v.exec(t, "REVOKE "+lockFunction+" FROM PUBLIC")
				v.endLeader(t)
			},
			heal: func(t *testing.T, v *victim) { v.exec(t, "GRANT "+lockFunction+" TO PUBLIC") },
		},
		{
			name: "gone",
			pages: []expected{{
				"BackgroundLeaderMetricsAbsent", "critical", nil, "No replica of deployment gone reports whether it leads.",
				"For at least 12s, no replica of deployment gone has been scraped; 3 were within the last 6h.",
			}},
			strike: func(t *testing.T, v *victim) { v.stopReplicas(t, v.replicas...) },
			heal:   func(t *testing.T, v *victim) { v.restart(t, nil, v.replicas...) },
		},
		{
			name: "twofold",
			pages: []expected{{
				"BackgroundLeaderMultiple", "critical", nil, "Several replicas lead the background work of deployment twofold.",
				"For at least 4s, 2 replicas of deployment twofold have claimed to lead at once.",
			}},
			strike: func(t *testing.T, v *victim) {
				v.createDatabase(t, "twofold_other")
				v.dsn = v.plain("twofold_other")
				v.restart(t, nil, v.replicas[2])
			},
			heal: func(t *testing.T, v *victim) {
				v.dsn = v.plain(v.database)
				v.restart(t, nil, v.replicas[2])
			},
		},
		{
			name: "stolen",
			pages: []expected{
				{
					"BackgroundLeaderUnclaimed", "critical", nil, "The leader's lock of deployment stolen is held by a session that no replica claims.",
					"For at least 6s, a session has held the lock while 0 of the replicas of deployment stolen that Prometheus scrapes claimed to lead.",
				},
				{
					"BackgroundLeaderForeignHolder", "warning",
					map[string]string{"target": "stolen", "datname": "stolen"},
					"Something that is no replica holds the leader's lock of deployment stolen.",
					"For at least 2s, 1 session with an application_name that is not expected has held the lock in database stolen of target stolen, deployment stolen.",
				},
			},
			muted:  []string{"BackgroundLeaderHeartbeatStale"},
			strike: func(t *testing.T, v *victim) { thief = steal(t, v.watched) },
			heal:   func(t *testing.T, _ *victim) { thief.Close(t.Context()) },
		},
		{
			name: "flapping", long: 3,
			pages: []expected{{
				"BackgroundLeaderFlapping", "warning", nil, "Leadership of deployment flapping changes too often.",
				"Within the last 2m, ",
			}},
			strike: func(t *testing.T, v *victim) {
				for range 8 {
					v.endLeader(t)
					v.awaitLeader(t)
				}
			},
			heal: func(*testing.T, *victim) {}, // it has stopped
		},
		{
			name: "rolling", long: 1,
			strike: func(t *testing.T, v *victim) { v.roll(t, 20) }, // ten minutes, at a tenth of the default check interval
			heal:   func(*testing.T, *victim) {},
		},
	}
}

// steal takes the lock as somebody with psql would.
func steal(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn+"&application_name=psql")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), `DO $$ BEGIN LOOP
			PERFORM pg_terminate_backend(pid) FROM pg_locks JOIN pg_database d ON d.oid = database
				WHERE locktype = 'advisory' AND granted AND classid = 1886156915 AND datname = current_database() AND pid <> pg_backend_pid();
			EXIT WHEN pg_try_advisory_lock(1886156915, 1);
		END LOOP; END $$`); err != nil {
		t.Fatal(err)
	}
	return conn
}

// roll restarts one replica after another, each when the last one has been up for so many seconds, as Prometheus knows.
func (v *victim) roll(t *testing.T, seconds int) {
	t.Helper()
	for _, r := range v.replicas {
		begin := time.Now().Unix() - 1 // a process knows its start to the second
		v.restart(t, nil, r)
		v.awaitAnswer(t, fmt.Sprintf(`time() - (process_start_time_seconds{instance=%q} > %d) >= %d`, r.address, begin, seconds))
	}
}

// scenariosOfExporter are about who watches.
func scenariosOfExporter() []scenario {
	return []scenario{
		{
			name: "unwatched",
			pages: []expected{{
				"LeaderExporterDown", "warning", nil, "No leader exporter reports on deployment unwatched.",
				"For at least 6s, no leader-exporter that watches deployment unwatched has been scraped; its last look at the server was ",
			}},
			strike: func(t *testing.T, v *victim) {
				if err := stop(v.exporter); err != nil {
					t.Fatal(err)
				}
			},
			heal: func(t *testing.T, v *victim) { v.watch(t, v.watched) },
		},
		{
			name: "dark", ownServer: true,
			pages: []expected{{
				"LeaderExporterTargetDown", "critical",
				map[string]string{"target": "dark"},
				"The database server of deployment dark does not answer the leader exporter.",
				"For at least 3s, leader_lock_up has been 0 for target dark, deployment dark.",
			}},
			muted: []string{"BackgroundLeaderMissing"},
			strike: func(t *testing.T, v *victim) {
				if err := v.server.Stop(pgserver.Fast); err != nil {
					t.Fatal(err)
				}
			},
			heal: func(t *testing.T, v *victim) {
				if err := v.server.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "elsewhere",
			pages: []expected{{
				"BackgroundLeaderPhantom", "critical", nil, "A replica of deployment elsewhere claims to lead without the lock.",
				"For at least 4s, 1 of the replicas of deployment elsewhere have claimed to lead while the exporter saw the lock free.",
			}},
			strike: func(t *testing.T, v *victim) {
				v.createDatabase(t, "elsewhere_other")
				v.watch(t, v.server.DSN("elsewhere_other"))
			},
			heal: func(t *testing.T, v *victim) { v.watch(t, v.server.DSN(v.database)) },
		},
		{
			name: "standby",
			pages: []expected{{
				"LeaderExporterOnStandby", "warning",
				map[string]string{"target": "standby"},
				"The leader exporter watches a hot standby of deployment standby.",
				"For at least 6s, leader_lock_database_in_recovery has been 1 for target standby, deployment standby.",
			}},
			strike: func(t *testing.T, v *victim) {
				v.watch(t, pgtest.Cluster(t, pgserver.Options{Standby: true}).DSN("postgres"))
			},
			heal: func(t *testing.T, v *victim) { v.watch(t, v.server.DSN(v.database)) },
		},
	}
}

// scenariosOfWork are about what the leader runs.
func scenariosOfWork() []scenario {
	const loop = "actions-timeout"
	breakLoop := func(way string) func(*testing.T, *victim) {
		return func(t *testing.T, v *victim) { v.replace(t, "--break="+loop+"="+way) }
	}
	whole := func(t *testing.T, v *victim) { v.replace(t) }
	return []scenario{
		{
			name: "failing", long: 2, loopInterval: 3 * time.Second,
			pages: []expected{{
				"BackgroundLoopFailing", "warning",
				map[string]string{"loop": loop},
				"The background loop actions-timeout of deployment failing fails.",
				"For at least 30s, more passes of the loop actions-timeout of deployment failing have failed than succeeded; by the last count ",
			}},
			strike: breakLoop("error"),
			heal:   whole,
		},
		{
			name: "hanging", long: 3, loopInterval: 3 * time.Second,
			pages: []expected{{
				"BackgroundLoopStalled", "warning",
				map[string]string{"loop": loop, "instance": "*"},
				"A pass of the background loop actions-timeout of deployment hanging hangs.",
				"For at least 1m30s, 1 pass of the loop actions-timeout has been running on 127.0.0.1:",
			}},
			strike: breakLoop("hang"),
			heal:   whole,
		},
		{
			name: "exhausted",
			pages: []expected{{
				"BackgroundWorkerExhausted", "warning",
				map[string]string{"worker": "sse-relay", "instance": "*"},
				"The worker sse-relay of deployment exhausted has given up.",
				"For at least 2s, plexsphere_worker_exhausted has been 1 for the worker sse-relay on 127.0.0.1:",
			}},
			strike: func(t *testing.T, v *victim) {
				v.restart(t, []string{"--break=sse-relay=exit", "--worker-restarts=1", "--worker-backoff=10ms"}, v.replicas[0])
			},
			heal: func(t *testing.T, v *victim) { v.restart(t, nil, v.replicas[0]) },
		},
	}
}
