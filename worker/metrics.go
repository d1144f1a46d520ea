package worker

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of all workers. Each has the label worker.
type metrics struct {
	up, exhausted    *prometheus.GaugeVec
	restarts, panics *prometheus.CounterVec
}

// register returns the metrics on reg, those that are already there included. Without a Registerer nobody reads them.
func register(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "plexsphere_worker_up",
			Help: "1 while the worker runs; 0 before its start, while it waits for a restart, and once it is finished or exhausted.",
		}, []string{"worker"}),
		exhausted: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "plexsphere_worker_exhausted",
			Help: "1 once the worker has spent its restart budget and is not started again, else 0.",
		}, []string{"worker"}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plexsphere_worker_restarts_total",
			Help: "Restarts of the worker after a failure.",
		}, []string{"worker"}),
		panics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plexsphere_worker_panics_total",
			Help: "Failures of the worker that were panics or calls of runtime.Goexit.",
		}, []string{"worker"}),
	}
	if reg == nil {
		return m, nil
	}
	var problems [4]error
	m.up, problems[0] = registered(reg, m.up)
	m.exhausted, problems[1] = registered(reg, m.exhausted)
	m.restarts, problems[2] = registered(reg, m.restarts)
	m.panics, problems[3] = registered(reg, m.panics)
	return m, errors.Join(problems[:]...)
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

// add makes the series of a worker.
func (m *metrics) add(name string) {
	m.up.WithLabelValues(name).Set(0)
	m.exhausted.WithLabelValues(name).Set(0)
	m.restarts.WithLabelValues(name)
	m.panics.WithLabelValues(name)
}
