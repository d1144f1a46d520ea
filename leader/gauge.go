package leader

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// gaugeName is the one metric of this package.
const gaugeName = "plexsphere_background_leader"

// registerGauge returns the gauge on reg, the one that is already there included. Without a Registerer it returns a gauge
// that nobody reads.
func registerGauge(reg prometheus.Registerer) (prometheus.Gauge, error) {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: gaugeName,
		Help: "1 while this replica leads the background work of its deployment, else 0.",
	})
	if reg == nil {
		return gauge, nil
	}
	err := reg.Register(gauge)
	if err == nil {
		return gauge, nil
	}
	var taken prometheus.AlreadyRegisteredError
	if !errors.As(err, &taken) {
		return nil, fmt.Errorf("register %s: %w", gaugeName, err)
	}
	existing, ok := taken.ExistingCollector.(prometheus.Gauge)
	if !ok {
		return nil, fmt.Errorf("register %s: the registry holds a %T under that name", gaugeName, taken.ExistingCollector)
	}
	return existing, nil
}
