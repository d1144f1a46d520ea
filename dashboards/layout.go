package dashboards

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// The uids are fixed: links, bookmarks and a second import find the same dashboard.
const (
	fleetUID      = "plexsphere-leader-fleet"
	deploymentUID = "plexsphere-leader-deployment"
)

// Files returns the dashboards as JSON by the names of their files, the same each time. It may be called from any goroutine.
func Files() (map[string][]byte, error) {
	files := make(map[string][]byte)
	readable := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&") // the SDK escapes for HTML, and these files are read
	for name, d := range map[string]*dashboard.DashboardBuilder{"fleet.json": fleet(), "deployment.json": deployment()} {
		built, err := d.Build()
		if err != nil {
			return nil, fmt.Errorf("dashboards: build %s: %w", name, err)
		}
		content, err := json.MarshalIndent(built, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("dashboards: write %s: %w", name, err)
		}
		files[name] = []byte(readable.Replace(string(content)) + "\n")
	}
	return files, nil
}

// fleet answers for all deployments: is anyone without its leader?
func fleet() *dashboard.DashboardBuilder {
	d := begin(fleetUID, "Background leaders", "Who leads in each deployment, since when, and whether it is healthy.").
		WithVariable(datasourceVariable()).WithVariable(deploymentsVariable()).WithVariable(lockVariable())
	return place(d, []row{
		{"All deployments", 4, []placed{{10, deploymentsPanel()}, {14, unhealthyPanel()}}},
		{"Each deployment", 20, []placed{{24, fleetPanel()}}},
	})
}

// deployment answers for one deployment: who leads over time, by whose word, and what comes of it?
func deployment() *dashboard.DashboardBuilder {
	d := begin(deploymentUID, "Background leader of a deployment", "Who leads in one deployment, by its replicas' word and by the lock's, and how the leader's work goes.").
		WithVariable(datasourceVariable()).WithVariable(deploymentVariable()).WithVariable(lockVariable()).WithVariable(checkIntervalVariable()).
		Annotation(newTerms()).Link(linkToFleet())
	return place(d, []row{
		{"Now", 5, []placed{
			{4, verdictPanel()},
			{3, alertsNowPanel()},
			{17, termPanel()},
		}},
		{"Who leads over time", 6, []placed{
			{24, replicasPanel()},
			{24, lockPanel()},
			{12, claimsPanel()},
			{12, heartbeatPanel()},
		}},
		{"Changes", 7, []placed{
			{6, rangePanel()},
			{10, handoverPanel()},
			{8, sharePanel()},
			{24, alertsPanel()},
		}},
		{"Loops", 8, []placed{
			{12, passesPanel()},
			{12, underWayPanel()},
			{24, loopsPanel()},
		}},
		{"Workers", 10, []placed{
			{24, workersPanel()},
		}},
		{"Exporter", 6, []placed{
			{10, upPanel()},
			{4, serverPanel()},
			{10, answerPanel()},
			{6, pollPanel()},
			{6, intervalPanel()},
			{6, locksPanel()},
			{6, failuresPanel()},
		}},
	})
}

// row is a title and the panels under it, from left to right and on.
type row struct {
	title  string
	height uint32
	panels []placed
}

// placed is a panel with its width, of 24.
type placed struct {
	width uint32
	panel *dashboard.PanelBuilder
}

// place puts the rows one below the other. The builder finds the positions; the ids count from 1.
func place(d *dashboard.DashboardBuilder, rows []row) *dashboard.DashboardBuilder {
	id := uint32(0)
	next := func() uint32 { id++; return id }
	for _, r := range rows {
		d.WithRow(dashboard.NewRowBuilder(r.title).Id(next()))
		for _, p := range r.panels {
			d.WithPanel(p.panel.Id(next()).Span(p.width).Height(r.height))
		}
	}
	return d
}

// begin returns a dashboard without panels.
func begin(uid, title, description string) *dashboard.DashboardBuilder {
	return dashboard.NewDashboardBuilder(title).Uid(uid).Description(description).Tags([]string{"background-leader"}).
		Timezone(common.TimeZoneBrowser).Time("now-1h", "now").Refresh("30s").Tooltip(dashboard.DashboardCursorSyncCrosshair)
}
