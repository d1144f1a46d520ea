package loop

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// result is how a tick's pass went, and the value of the label of that name.
type result string

const (
	resultOK    result = "ok"
	resultError result = "error"
	resultPanic result = "panic"
	resultLost  result = "lost" // the term ended meanwhile, or the loop did and the pass returned an error
)

// metrics are those of all loops on one Registerer. Each has the label loop.
type metrics struct {
	ticks       *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	lastSuccess *prometheus.GaugeVec
	running     *prometheus.GaugeVec
}

// register returns the metrics on reg, those that are already there included, with the series of a loop that does not run. Without
// a Registerer nobody reads them.
func register(reg prometheus.Registerer, loop string) (*metrics, error) {
	m := &metrics{
		ticks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plexsphere_background_loop_ticks_total",
			Help: "Passes that this replica made while it led, by result: ok, error, panic, or lost, which is one during which the term or the process ended.",
		}, []string{"loop", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "plexsphere_background_loop_tick_duration_seconds",
			Help:    "How long the passes took that this replica made while it led.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"loop"}),
		lastSuccess: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "plexsphere_background_loop_last_success_timestamp_seconds",
			Help: "When this replica last ended a pass without an error while it led; absent until then.",
		}, []string{"loop"}),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "plexsphere_background_loop_running",
			Help: "1 while this replica is in a pass of the loop, or in a loop that paces itself; else 0.",
		}, []string{"loop"}),
	}
	if reg != nil {
		var problems [4]error
		m.ticks, problems[0] = registered(reg, m.ticks)
		m.duration, problems[1] = registered(reg, m.duration)
		m.lastSuccess, problems[2] = registered(reg, m.lastSuccess)
		m.running, problems[3] = registered(reg, m.running)
		if err := errors.Join(problems[:]...); err != nil {
			return nil, err
		}
	}
	m.running.WithLabelValues(loop).Set(0)
	return m, nil
}

// registered registers the metric, or returns the one that reg already holds in its place.
func registered[M prometheus.Collector](reg prometheus.Registerer, metric M) (M, error) {
	err := reg.Register(metric)
	var taken prometheus.AlreadyRegisteredError
	if !errors.As(err, &taken) {
		return metric, err
	}
	existing, ok := taken.ExistingCollector.(M)
	if !ok {
		return metric, fmt.Errorf("the registry holds a %T in the place of a %T", taken.ExistingCollector, metric)
	}
	return existing, nil
}

// addTicks makes the series of a loop that ticks.
func (m *metrics) addTicks(loop string) {
	for _, r := range []result{resultOK, resultError, resultPanic, resultLost} {
		m.ticks.WithLabelValues(loop, string(r))
	}
	m.duration.WithLabelValues(loop)
}

// begin enters that the loop's function runs, until the function that it returns is called.
func (m *metrics) begin(loop string) (end func()) {
	running := m.running.WithLabelValues(loop)
	running.Set(1)
	return func() { running.Set(0) }
}

// tick enters a pass that ended.
func (m *metrics) tick(loop string, r result, took time.Duration) {
	m.ticks.WithLabelValues(loop, string(r)).Inc()
	m.duration.WithLabelValues(loop).Observe(took.Seconds())
	if r == resultOK {
		m.lastSuccess.WithLabelValues(loop).SetToCurrentTime()
	}
}
