package dashboards_test

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/api"
	"github.com/plexsphere/leader-exporter/internal/demotest"
)

const patience = 3 * time.Minute

// demo is a running plexsphere-demo.
type demo struct {
	*demotest.Demo
	exporter   string
	prometheus server
	replicas   map[string]string // address by name
	ready      time.Time         // Prometheus has scraped all of them
}

// startDemo starts replicas whose leader is killed now and then.
func startDemo(t *testing.T) *demo {
	t.Helper()
	d := &demo{Demo: demotest.Start(t, "--kill-leader-every=8s", "--loop-interval=300ms"), replicas: map[string]string{}}
	d.await(t, `Ctrl-C stops everything`, 1)
	d.ready = time.Now()
	d.exporter = d.await(t, `exporter +http://(\S+)/metrics`, 1)[0][1]
	d.prometheus.address = d.await(t, `Prometheus +http://(\S+)/`, 1)[0][1]
	for _, match := range d.await(t, `(plexsphere-\d) +http://(\S+)/metrics`, 3) {
		d.replicas[match[1]] = match[2]
	}
	return d
}

// await waits until the demo has printed the pattern so often.
func (d *demo) await(t *testing.T, pattern string, times int) [][]string {
	t.Helper()
	return d.Await(t, patience, pattern, times)
}

// terms returns the lock's history, oldest first.
func (d *demo) terms(t *testing.T) []api.Term {
	t.Helper()
	resp, err := http.Get("http://" + d.exporter + "/api/v1/terms")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer api.TermsAnswer
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(answer.Terms)
	return answer.Terms
}

// settled is a moment in a term at which everything has been scraped since its begin, at one scrape a second.
const settled = 4 * time.Second

// lasting are the terms that have lasted until after their settled moment, which Prometheus has seen.
func (d *demo) lasting(terms []api.Term) []api.Term {
	return slices.DeleteFunc(slices.Clone(terms), func(term api.Term) bool {
		return term.LastSeen.Sub(term.Start) < settled+time.Second || term.Start.Add(settled).Before(d.ready.Add(time.Second))
	})
}

// Every query of every panel, variable and annotation, asked as Grafana asks it, of a Prometheus that saw handovers: all answer, and what they
// say is what the history of the lock says.
func TestPanelsAgreeWithTheHistoryOfTheLock(t *testing.T) {
	t.Parallel()
	d := startDemo(t)
	d.await(t, `; handed over in `, 3)
	terms := d.terms(t)
	for deadline := time.Now().Add(patience); len(d.lasting(terms)) < 3; terms = d.terms(t) {
		if time.Now().After(deadline) {
			t.Fatalf("no three terms of some seconds:\n%v\n%s", terms, d.Out)
		}
		time.Sleep(200 * time.Millisecond)
	}
	lasting := d.lasting(terms)
	from, to := lasting[0].Start.Add(settled).Truncate(time.Millisecond), lasting[len(lasting)-1].Start.Add(settled).Truncate(time.Millisecond)
	to = from.Add(to.Sub(from).Truncate(time.Second))

	d.requireAnswers(t, from, to)
	for _, term := range lasting {
		d.requireHolder(t, term, term.Start.Add(settled))
	}
	d.requireFreeLock(t, terms)
	d.requireCounts(t, terms, from, to)
}

// requireAnswers fails when a query has no answer at the end of the range, which is within a term.
func (d *demo) requireAnswers(t *testing.T, from, to time.Time) {
	t.Helper()
	values := view("demo", from, to, time.Second)
	for _, q := range questions(t) {
		if q.instant {
			if len(d.prometheus.at(t, fill(q.expr, values), to)) == 0 {
				t.Errorf("%s: no answer", q.where)
			}
			continue
		}
		answers := slices.ContainsFunc(d.prometheus.over(t, fill(q.expr, values), from, to, time.Second), func(r result) bool {
			return math.Abs(r.Values[len(r.Values)-1].at-float64(to.UnixMilli())/1000) < 1.5
		})
		if !answers {
			t.Errorf("%s: no answer at the end of the range", q.where)
		}
	}
	for _, b := range boards(t) {
		for _, v := range b.Templating.List {
			want := map[string]string{"deployment": "demo", "lock": "background-leader"}[v.Name]
			if v.Type != "query" {
				continue
			}
			for _, all := range []string{"demo", ".*"} {
				if got := d.prometheus.values(t, fill(v.Query, view(all, from, to, time.Second)), from, to); !slices.Equal(got, []string{want}) {
					t.Errorf("%s: the variable %s offers %q", b.file, v.Name, got)
				}
			}
		}
	}
}

// ask asks a query of a panel for one moment.
func (d *demo) ask(t *testing.T, where string, moment time.Time) []result {
	t.Helper()
	for _, q := range questions(t) {
		if q.where == where {
			return d.prometheus.at(t, fill(q.expr, view("demo", moment.Add(-time.Minute), moment, time.Second)), moment)
		}
	}
	t.Fatalf("there is no query %q", where)
	return nil
}

// requireValue fails unless a query has one answer, with this value and these labels among its own.
func (d *demo) requireValue(t *testing.T, where string, moment time.Time, value float64, labels ...string) {
	t.Helper()
	got := d.ask(t, where, moment)
	if len(got) != 1 || math.Abs(got[0].Value.value-value) > 0.001 {
		t.Errorf("%s at %v: %v; want %v", where, moment, got, value)
		return
	}
	for i := 0; i < len(labels); i += 2 {
		if got[0].Metric[labels[i]] != labels[i+1] {
			t.Errorf("%s at %v: %v; want %s %q", where, moment, got, labels[i], labels[i+1])
		}
	}
}

// requireHolder fails unless all panels name the holder of the term.
func (d *demo) requireHolder(t *testing.T, term api.Term, moment time.Time) {
	t.Helper()
	name, start := *term.ApplicationName, float64(term.Start.UnixMicro())/1000
	for _, r := range d.ask(t, "deployment.json: Who leads: A", moment) {
		leads := r.Metric["instance"] == d.replicas[name]
		if leads != (r.Value.value == 1) {
			t.Errorf("Who leads at %v: %v; the lock says %s at %s", moment, r, name, d.replicas[name])
		}
	}
	d.requireValue(t, "deployment.json: Leaders now: A", moment, 1)
	d.requireValue(t, "deployment.json: Who holds the lock: A", moment, 1, "application_name", name)
	d.requireValue(t, "deployment.json: Claims against lock: A", moment, 1)
	d.requireValue(t, "deployment.json: Claims against lock: B", moment, 1)
	d.requireValue(t, "deployment.json: Present term: A", moment, start, "application_name", name, "usename", *term.Usename, "datname", term.Datname)
	d.requireValue(t, "deployment.json: Present term: B", moment, float64(term.PID))
	d.requireValue(t, "deployment.json: New leader", moment, start, "application_name", name)
	d.requireValue(t, "fleet.json: Deployments: B", moment, 1)
	d.requireValue(t, "fleet.json: Who leads: A", moment, 1, "deployment", "demo")
	d.requireValue(t, "fleet.json: Who leads: B", moment, 1)
	d.requireValue(t, "fleet.json: Who leads: C", moment, 1, "application_name", name)
	d.requireValue(t, "fleet.json: Who leads: D", moment, start)
}

// requireFreeLock looks into the gaps that are long enough for every scrape to have seen them.
func (d *demo) requireFreeLock(t *testing.T, terms []api.Term) {
	t.Helper()
	for i, term := range terms[1:] {
		end := terms[i].End
		if end == nil || term.StartedAfter == nil || term.StartedAfter.Sub(*end) < 1500*time.Millisecond {
			continue
		}
		moment := *term.StartedAfter
		t.Logf("the lock was free from %v to %v", end, term.Start)
		d.requireValue(t, "deployment.json: Who holds the lock: A", moment, 1, "application_name", "nobody")
		d.requireValue(t, "deployment.json: Leaders now: A", moment, 0)
		d.requireValue(t, "fleet.json: Who leads: B", moment, 0)
	}
}

// requireCounts fails unless what is counted over the range is what the history has in it.
func (d *demo) requireCounts(t *testing.T, terms []api.Term, from, to time.Time) {
	t.Helper()
	begun, free := 0.0, 0.0
	for i, term := range terms {
		if term.Start.After(from) && term.Start.Before(to) {
			begun++
			free += term.Start.Sub(*terms[i-1].End).Seconds()
		}
	}
	values := view("demo", from, to, time.Second)
	for where, want := range map[string]struct{ value, tolerance float64 }{
		"deployment.json: In this range: A": {begun, 0},
		"deployment.json: In this range: B": {free, 0.1*free + begun*0.5}, // a poll every 200 ms sees begin and end of each gap
		"deployment.json: In this range: C": {0, 0},
		"fleet.json: Who leads: F":          {begun, 0},
	} {
		i := slices.IndexFunc(questions(t), func(q question) bool { return q.where == where })
		got := d.prometheus.at(t, fill(questions(t)[i].expr, values), to)
		if len(got) != 1 || math.Abs(got[0].Value.value-want.value) > want.tolerance {
			t.Errorf("%s from %v to %v: %v; want %v", where, from, to, got, want)
		}
	}
	t.Logf("%d queries; %.0f terms began, the lock was free for %.1f s: %s", len(questions(t)), begun, free, strings.Join(holders(terms), ", "))
}

func holders(terms []api.Term) []string {
	var names []string
	for _, term := range terms {
		names = append(names, *term.ApplicationName)
	}
	return names
}
