package worker_test

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// filter gathers the series of one worker.
type filter struct {
	registry *prometheus.Registry
	worker   string
}

func (f filter) Gather() ([]*dto.MetricFamily, error) {
	families, err := f.registry.Gather()
	for _, family := range families {
		family.Metric = slices.DeleteFunc(family.Metric, func(m *dto.Metric) bool {
			return m.GetLabel()[0].GetValue() != f.worker
		})
	}
	return families, err
}
