package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/plexsphere/leader-exporter/cmd/plexsphere-demo/replica"
)

// scrapeTimeout bounds one look at a page.
const scrapeTimeout = 2 * time.Second

// sight is what could be seen at one moment.
type sight struct {
	at     time.Time
	claims []string // replicas whose own gauge is 1
	holder string   // application_name of the lock's holder, by the exporter; empty when it tells of none
	pid    int      // its backend

	unready []string // probes that fail on /readyz of the replicas that answer: replica, probe and error
}

// look reads the metrics of all replicas and of the exporter. What does not answer is not seen.
func (d *deployment) look(ctx context.Context) sight {
	seen := sight{}
	claims := make([]bool, len(d.replicas))
	unready := make([][]string, len(d.replicas))
	var looking sync.WaitGroup
	for i, r := range d.replicas {
		looking.Go(func() { unready[i] = failingProbes(ctx, r) })
		looking.Go(func() {
			families, err := scrape(ctx, r.address)
			claims[i] = err == nil && gauge(families["plexsphere_background_leader"]) == 1
		})
	}
	looking.Go(func() {
		families, err := scrape(ctx, d.exporterAddr)
		if err != nil || gauge(families["leader_lock_held"]) != 1 {
			return
		}
		seen.holder = label(families["leader_lock_holder_info"], "application_name")
		seen.pid = int(gauge(families["leader_lock_holder_pid"]))
	})
	looking.Wait()
	for i, claimed := range claims {
		if claimed {
			seen.claims = append(seen.claims, d.replicas[i].name)
		}
	}
	seen.unready = slices.Concat(unready...)
	seen.at = time.Now()
	return seen
}

// failingProbes returns what /readyz of the replica complains of. One that does not answer is starting, or was killed; that it boots
// is no complaint.
func failingProbes(ctx context.Context, r *replicaProcess) (failing []string) {
	_, body, err := get(ctx, "http://"+r.address+"/readyz")
	if err != nil {
		return nil
	}
	var answer replica.Readiness
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return []string{fmt.Sprintf("%s: /readyz: %v", r.name, err)}
	}
	for name, probe := range answer.Probes {
		if !probe.OK && name != replica.Booting {
			failing = append(failing, fmt.Sprintf("%s: %s: %s", r.name, name, probe.Error))
		}
	}
	slices.Sort(failing)
	return failing
}

// agrees reports whether exactly one replica claims to lead and the exporter says the same.
func (s sight) agrees() bool { return len(s.claims) == 1 && s.claims[0] == s.holder }

func (s sight) String() string {
	claims, holder := "no replica", "nobody"
	if len(s.claims) > 0 {
		claims = strings.Join(s.claims, " and ")
	}
	if s.holder != "" {
		holder = fmt.Sprintf("%s (backend %d)", s.holder, s.pid)
	}
	text := fmt.Sprintf("%s claims to lead, pg_locks shows %s", claims, holder)
	if len(s.unready) > 0 {
		text += "; not ready: " + strings.Join(s.unready, "; ")
	}
	return text
}

// scrape reads a /metrics page.
func scrape(ctx context.Context, address string) (map[string]*dto.MetricFamily, error) {
	page, err := fetch(ctx, "http://"+address+"/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(strings.NewReader(page))
}

// fetch reads a page, which must be there.
func fetch(ctx context.Context, page string) (string, error) {
	status, body, err := get(ctx, page)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: %s", page, http.StatusText(status))
	}
	return body, err
}

// get reads a page with its status.
func get(ctx context.Context, page string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(content), err
}

// emptyAnswer reports whether an answer of Prometheus has no sample.
func emptyAnswer(answer string) bool { return strings.Contains(answer, `"result":[]`) }

// gauge returns the value of the first series, or 0 when there is none.
func gauge(family *dto.MetricFamily) float64 {
	if metrics := family.GetMetric(); len(metrics) > 0 {
		return metrics[0].GetGauge().GetValue()
	}
	return 0
}

// label returns a label of the first series.
func label(family *dto.MetricFamily, name string) string {
	if metrics := family.GetMetric(); len(metrics) > 0 {
		for _, pair := range metrics[0].GetLabel() {
			if pair.GetName() == name {
				return pair.GetValue()
			}
		}
	}
	return ""
}
