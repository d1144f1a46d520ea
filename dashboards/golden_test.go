package dashboards_test

import (
	"testing"

	"github.com/plexsphere/leader-exporter/dashboards"
	"github.com/plexsphere/leader-exporter/internal/golden"
)

func TestShippedDashboardsAreThoseOfTheCode(t *testing.T) {
	files, err := dashboards.Files()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		golden.Require(t, "../"+name, string(content))
	}
}
