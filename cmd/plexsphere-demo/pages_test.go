package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Issue 6: what breaks pages once, with the right labels and words, until it is healed, and nothing else pages: no healthy part of it, no
// other deployment, and no rolling restart.
func TestPagesArriveOnceAndResolve(t *testing.T) {
	opts := upOptions{
		replicas: 3, checkInterval: 500 * time.Millisecond, loopInterval: 30 * time.Second,
		exporter: buildExporter(t), prometheus: "prometheus", alertmanager: "prometheus-alertmanager",
	}
	begin := time.Now()
	s := newStation(t, opts, scenarios())
	t.Logf("%d deployments are well after %v", len(s.victims), time.Since(begin).Round(time.Second))
	forEach(t, "play", len(s.victims), scenarios(), s.play)
	for _, sc := range scenarios() {
		s.requireNothingElse(t, sc)
	}
	if err := s.fault(); err != nil {
		t.Error(err)
	}
}

// The demo prints a page as it arrives and as it is over, and goes on.
func TestPagesArePrintedByTheDemo(t *testing.T) {
	d := startDemo(t, "--check-interval=500ms")
	database := d.await(t, `PostgreSQL +(postgres://\S+)`)[1]
	thief := steal(t, database)
	d.await(t, `page    BackgroundLeaderUnclaimed of demo: The leader's lock of deployment demo is held by a session that no replica claims.`)
	thief.Close(t.Context())
	d.await(t, `over    BackgroundLeaderUnclaimed of demo: `)
	d.await(t, `over    BackgroundLeaderForeignHolder of demo: `)
	if err := d.Cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := d.exitCode(t); code != exitOK {
		t.Errorf("exit code %d after Ctrl-C, want 0:\n%s", code, d.Out)
	}
	d.requireNothingLeft(t)
}

// longest is how long a page may take, and its end: Flapping looks back two minutes.
const longest = 3 * time.Minute

// play strikes, waits for the pages, heals, and waits for their ends.
func (s *station) play(t *testing.T, sc scenario) {
	v := s.victims[sc.name]
	begin := time.Now()
	sc.strike(t, v)
	struck := time.Since(begin)
	paged := s.awaitPages(t, sc, firing)
	for _, alert := range sc.muted {
		s.awaitAnswer(t, fmt.Sprintf(`ALERTS{deployment=%q,alertname=%q,alertstate="firing"}`, sc.name, alert))
	}
	healed := time.Now()
	sc.heal(t, v)
	over := s.awaitPages(t, sc, "resolved")
	v.awaitLeader(t)
	if err := v.fault(); err != nil {
		t.Error(err)
	}
	if len(sc.pages) > 0 {
		t.Logf("%s: struck in %.1fs, paged after %.1fs, over %.1fs after the healing", sc.name, struck.Seconds(), paged.Sub(begin).Seconds(), over.Sub(healed).Seconds())
	} else {
		t.Logf("%s: %.1fs, and nobody was paged", sc.name, time.Since(begin).Seconds())
	}
}

// awaitPages waits until the last page about each alert has the status, and returns when the last of them arrived.
func (s *station) awaitPages(t *testing.T, sc scenario, status string) (last time.Time) {
	t.Helper()
	for _, want := range sc.pages {
		s.await(t, want.alert+" "+status, func() (bool, string) {
			pages := s.arrived(sc.name, want.alert)
			if len(pages) == 0 || pages[len(pages)-1].Status != status {
				return false, fmt.Sprint(s.pages.after(0))
			}
			if at := pages[len(pages)-1].at; at.After(last) {
				last = at
			}
			return true, ""
		})
	}
	return last
}

// requireNothingElse fails unless each page came once and was over once, as it should read, and no other alert fired.
func (s *station) requireNothingElse(t *testing.T, sc scenario) {
	t.Helper()
	alerts := slices.Clone(sc.muted)
	for _, want := range sc.pages {
		alerts = append(alerts, want.alert)
		pages := s.arrived(sc.name, want.alert)
		if len(pages) != 2 || pages[0].Status != firing || pages[1].Status != "resolved" {
			t.Errorf("%s: %s came %d times, want once, and its end: %v", sc.name, want.alert, len(pages), pages)
			continue
		}
		want.require(t, sc.name, pages[0])
	}
	slices.Sort(alerts)
	if fired := s.fired(t, sc.name); !slices.Equal(fired, alerts) {
		t.Errorf("%s: in Prometheus %q fired, want %q", sc.name, fired, alerts)
	}
	for _, p := range s.pages.after(0) {
		if p.Labels["deployment"] != sc.name {
			continue
		}
		if !slices.ContainsFunc(sc.pages, func(want expected) bool { return want.alert == p.Labels["alertname"] }) {
			t.Errorf("%s: %v", sc.name, p)
		}
	}
}

const runbooks = "https://github.com/plexsphere/leader-exporter/blob/main/docs/runbooks/"

// require compares a page with what it should read.
func (want expected) require(t *testing.T, deployment string, got page) {
	t.Helper()
	labels := map[string]string{"alertname": want.alert, "severity": want.severity, "deployment": deployment}
	maps.Copy(labels, want.labels)
	for name, value := range labels {
		if value == "*" {
			labels[name] = got.Labels[name]
		}
	}
	if diff := cmp.Diff(labels, got.Labels); diff != "" {
		t.Errorf("%s: labels of %s (-want +got):\n%s", deployment, want.alert, diff)
	}
	description := got.Annotations["description"]
	if !strings.HasPrefix(description, want.description) || !regexp.MustCompile(`^[A-Z].*\.$`).MatchString(description) ||
		regexp.MustCompile(`{{|<no value>|%!|  `).MatchString(description) {
		t.Errorf("%s: description of %s %q, want %q and a full sentence", deployment, want.alert, description, want.description)
	}
	annotations := map[string]string{"summary": want.summary, "description": description, "runbook_url": runbooks + want.alert + ".md"}
	if diff := cmp.Diff(annotations, got.Annotations); diff != "" {
		t.Errorf("%s: annotations of %s (-want +got):\n%s", deployment, want.alert, diff)
	}
}
