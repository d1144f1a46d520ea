package dashboards_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fleetSize is the number of deployments, of three replicas each, that a fleet of the size of a large installation has.
const fleetSize = 200

// A fleet in a real Prometheus, an hour of it, scraped every 15 seconds: how long the slowest query of each dashboard takes. Nothing depends
// on the figure but that every query answers.
func TestLoadFleetOfDeployments(t *testing.T) {
	to := time.Now().Truncate(time.Second).Add(-time.Minute)
	from := to.Add(-time.Hour)
	folder := t.TempDir()
	written := writeFleet(t, filepath.Join(folder, "fleet.om"), from, to)
	data := filepath.Join(folder, "data")
	if out, err := exec.Command("promtool", "tsdb", "create-blocks-from", "openmetrics", filepath.Join(folder, "fleet.om"), data).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p := startPrometheus(t, folder, data)
	for file, deployment := range map[string]string{"fleet.json": ".*", "deployment.json": "d000"} {
		values := view(deployment, from, to, 15*time.Second)
		slowest, total, name := time.Duration(0), time.Duration(0), ""
		for _, q := range questions(t) {
			if !strings.HasPrefix(q.where, file) {
				continue
			}
			best := time.Hour
			for range 3 {
				begin := time.Now()
				var answers []result
				if q.instant {
					answers = p.at(t, fill(q.expr, values), to)
				} else {
					answers = p.over(t, fill(q.expr, values), from, to, 15*time.Second)
				}
				best = min(best, time.Since(begin))
				if len(answers) == 0 {
					t.Errorf("%s: no answer", q.where)
				}
			}
			total += best
			if best > slowest {
				slowest, name = best, q.where
			}
		}
		t.Logf("%d samples of %d deployments: the slowest query takes %v (%s), all of %s one after the other %v",
			written, fleetSize, slowest.Round(time.Millisecond), name, file, total.Round(time.Millisecond))
	}
}

// startPrometheus starts one on data that is there, without anything to scrape.
func startPrometheus(t *testing.T, folder, data string) server {
	t.Helper()
	config := filepath.Join(folder, "prometheus.yml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(folder, "log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+data, "--web.listen-address=127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; to install it: make setup", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		content, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		_, after, listens := strings.Cut(string(content), `msg="Listening on" address=`)
		if listens && strings.Contains(string(content), "ready to receive web requests") {
			address, _, _ := strings.Cut(after, "\n")
			return server{strings.TrimSpace(address)}
		}
	}
	content, _ := os.ReadFile(log)
	t.Fatalf("Prometheus is not ready:\n%s", content)
	return server{}
}

// simulated is one series of the fleet: its value after so many scrapes.
type simulated struct {
	name  string
	value func(scrape int) float64
}

// writeFleet writes the fleet's hour in the form that promtool reads, and returns the number of samples.
func writeFleet(t *testing.T, path string, from, to time.Time) int {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriter(file)
	samples := 0
	for i := range fleetSize {
		deployment := fmt.Sprintf("d%03d", i)
		all := leadership(deployment, from)
		if i == 0 {
			all = append(all, work(deployment)...)
		}
		for _, s := range all {
			scrape := 0
			for at := from; !at.After(to); at = at.Add(15 * time.Second) {
				fmt.Fprintf(out, "%s %g %d\n", s.name, s.value(scrape), at.Unix())
				scrape++
				samples++
			}
		}
	}
	fmt.Fprint(out, "# EOF\n")
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return samples
}

func constant(value float64) func(int) float64 { return func(int) float64 { return value } }

func rising(each float64) func(int) float64 {
	return func(scrape int) float64 { return each * float64(scrape) }
}

// leadership are the series by which a fleet is judged. The leader changes every ten minutes.
func leadership(deployment string, from time.Time) []simulated {
	labels := fmt.Sprintf(`deployment=%q,instance="exporter:18861",job="leader-exporter",target="t"`, deployment)
	lock := labels + fmt.Sprintf(`,datname=%q,lock="background-leader"`, deployment)
	turn := func(scrape int) int { return scrape / 40 }
	all := []simulated{
		{"leader_lock_up{" + labels + "}", constant(1)},
		{"leader_lock_database_in_recovery{" + labels + "}", constant(0)},
		{"leader_exporter_poll_interval_seconds{" + labels + "}", constant(1)},
		{"leader_exporter_server_locks{" + labels + "}", constant(20)},
		{"leader_exporter_last_success_timestamp_seconds{" + labels + "}", func(scrape int) float64 { return float64(from.Unix()) + 15*float64(scrape) }},
		{"leader_exporter_poll_duration_seconds_sum{" + labels + "}", rising(0.01)},
		{"leader_exporter_poll_duration_seconds_count{" + labels + "}", rising(15)},
		{`leader_exporter_poll_failures_total{` + labels + `,reason="timeout"}`, constant(0)},
		{"leader_lock_held{" + lock + "}", constant(1)},
		{"leader_lock_holders{" + lock + "}", constant(1)},
		{"leader_lock_waiters{" + lock + "}", constant(0)},
		{"leader_lock_holder_pid{" + lock + "}", constant(7)},
		{"leader_lock_holder_visible{" + lock + "}", constant(1)},
		{"leader_lock_holder_backend_start_timestamp_seconds{" + lock + "}", constant(float64(from.Unix()))},
		{"leader_lock_holder_info{" + lock + `,application_name="api",usename="api",client_addr="10.0.0.1"}`, constant(1)},
		{"leader_lock_term_start_timestamp_seconds{" + lock + "}", func(scrape int) float64 { return float64(from.Unix()) + 600*float64(turn(scrape)) }},
		{"leader_lock_holder_heartbeat_age_seconds{" + lock + "}", constant(3)},
		{"leader_lock_terms_total{" + lock + "}", func(scrape int) float64 { return float64(turn(scrape)) }},
		{"leader_lock_unheld_seconds_total{" + lock + "}", func(scrape int) float64 { return 3 * float64(turn(scrape)) }},
		{"leader_lock_multiple_holders_seconds_total{" + lock + "}", constant(0)},
	}
	for _, le := range []string{"0.05", "0.5", "1", "5", "20", "60", "+Inf"} {
		all = append(all, simulated{"leader_lock_handover_duration_seconds_bucket{" + lock + `,le="` + le + `"}`, func(scrape int) float64 { return float64(turn(scrape)) }},
			simulated{"leader_exporter_poll_duration_seconds_bucket{" + labels + `,le="` + le + `"}`, rising(15)})
	}
	for replica := range 3 {
		all = append(all, simulated{
			fmt.Sprintf(`plexsphere_background_leader{deployment=%q,instance="%s-%d:9090",job="plexsphere"}`, deployment, deployment, replica),
			func(scrape int) float64 {
				if turn(scrape)%3 == replica {
					return 1
				}
				return 0
			},
		})
	}
	return all
}

// work are the loops and workers of one deployment, as many as the reference replica has.
func work(deployment string) []simulated {
	var all []simulated
	for replica := range 3 {
		labels := fmt.Sprintf(`deployment=%q,instance="%s-%d:9090",job="plexsphere"`, deployment, deployment, replica)
		for i := range 25 {
			loop, worker := fmt.Sprintf("%s,loop=\"loop-%d\"", labels, i), fmt.Sprintf("%s,worker=\"worker-%d\"", labels, i)
			all = append(all,
				simulated{"plexsphere_background_loop_running{" + loop + "}", constant(0)},
				simulated{"plexsphere_background_loop_last_success_timestamp_seconds{" + loop + "}", constant(1)},
				simulated{"plexsphere_worker_up{" + worker + "}", constant(1)},
				simulated{"plexsphere_worker_exhausted{" + worker + "}", constant(0)},
				simulated{"plexsphere_worker_restarts_total{" + worker + "}", constant(0)},
				simulated{"plexsphere_worker_panics_total{" + worker + "}", constant(0)},
			)
			for _, result := range []string{"ok", "error", "panic", "lost"} {
				all = append(all, simulated{"plexsphere_background_loop_ticks_total{" + loop + `,result="` + result + `"}`, rising(1)})
			}
			for _, le := range []string{".005", ".01", ".025", ".05", ".1", ".25", ".5", "1", "2.5", "5", "10", "30", "60", "300", "+Inf"} {
				all = append(all, simulated{"plexsphere_background_loop_tick_duration_seconds_bucket{" + loop + `,le="` + le + `"}`, rising(4)})
			}
		}
	}
	return all
}
