package leadertest

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// leaderGauge is how the description of the elector's gauge begins.
const leaderGauge = `Desc{fqName: "plexsphere_background_leader",`

// Registerer is for the Config of the replica's elector: it records each begin and end of a term at the very moment, while
// the elector changes its state. leader.New uses a gauge that its registry already holds; this registry answers that it
// holds one, and the gauge is the history's own. All other collectors are accepted and forgotten.
func (h *History) Registerer(replica string) prometheus.Registerer {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "leading", Help: "1 while the replica leads, else 0."})
	return &registerer{gauge: &termGauge{Gauge: gauge, history: h, replica: replica}}
}

// registerer is a registry of one gauge.
type registerer struct{ gauge *termGauge }

// Register answers the elector's gauge with the history's.
func (r *registerer) Register(c prometheus.Collector) error {
	if _, isGauge := c.(prometheus.Gauge); isGauge && strings.HasPrefix(describe(c), leaderGauge) {
		return prometheus.AlreadyRegisteredError{ExistingCollector: r.gauge, NewCollector: c}
	}
	return nil
}

// MustRegister panics where Register returns an error.
func (r *registerer) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		if err := r.Register(c); err != nil {
			panic(fmt.Errorf("leadertest: register %s: %w", describe(c), err))
		}
	}
}

// Unregister removes nothing.
func (r *registerer) Unregister(prometheus.Collector) bool { return false }

// describe returns the one description of a collector, or "" when it has none or several.
func describe(c prometheus.Collector) string {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		c.Describe(descriptions)
	}()
	var text string
	count := 0
	for d := range descriptions {
		text = d.String()
		count++
	}
	if count != 1 {
		return ""
	}
	return text
}

// termGauge is 1 during a term. The elector calls Set under its mutex, so begin and end alternate.
type termGauge struct {
	prometheus.Gauge
	history *History
	replica string
	leads   atomic.Bool
}

// Set records what changes.
func (g *termGauge) Set(value float64) {
	g.Gauge.Set(value)
	leads := value != 0
	switch was := g.leads.Swap(leads); {
	case leads && !was:
		g.history.TermBegan(g.replica, 0)
	case was && !leads:
		g.history.TermEnded(g.replica)
	}
}
