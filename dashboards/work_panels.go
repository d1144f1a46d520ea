package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// Panels about what the leader does, one deployment at a time.

func passesPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Passes by result", unit: "ops", queries: []query{over("{{result}}", passRate())},
		description: "Passes of all loops on all replicas. error and panic are failures; lost means that the term or the process ended meanwhile. A standby's tick is no pass.",
	}.lines()
}

func underWayPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Loops in a pass, by role", unit: units.Short,
		queries: []query{
			over("on the leader", underWayWhere(perReplica())),
			over("on standbys", underWayWhere("1 - "+perReplica())),
		},
		description: "Loops that were in a pass when their replica was scraped, self-paced loops included. On standbys it is 0, except while a replica boots, or has just lost its term in the middle of a pass.",
	}.lines()
}

func loopsPanel() *dashboard.PanelBuilder {
	return panel{
		title:       "Loops",
		description: "What each loop did in this range, over all replicas. Counts are Prometheus's estimates, rounded. A self-paced loop makes no passes: it is under way on one replica.",
	}.table(
		[]label{{"loop", "Loop"}},
		column{title: "Under way", query: underWay()},
		column{title: "Passes ok", query: passesInRange("ok"), missing: "no passes"},
		column{title: "Failed", query: passesInRange("error|panic"), states: countOf(red), missing: "no passes"},
		column{title: "Lost", query: passesInRange("lost"), missing: "no passes"},
		column{title: "Median pass", query: passDuration("0.5"), unit: units.Seconds, missing: "no passes"},
		column{title: "Slow pass (95 %)", query: passDuration("0.95"), unit: units.Seconds, missing: "no passes"},
		column{title: "Last success, ago", query: lastSuccess(), unit: units.Seconds, missing: "none yet"},
	)
}

func workersPanel() *dashboard.PanelBuilder {
	return panel{
		title:       "Workers",
		description: "Each worker over all replicas. One that is down on a replica is finished, waits for a restart, or is exhausted: the latter stays down until its process is started again.",
	}.table(
		[]label{{"worker", "Worker"}},
		column{title: "Replicas", query: perWorker("count", "plexsphere_worker_up")},
		column{title: "Up on", query: perWorker("sum", "plexsphere_worker_up")},
		column{title: "Exhausted on", query: perWorker("sum", "plexsphere_worker_exhausted"), states: countOf(red)},
		column{title: "Restarts", query: perWorkerInRange("plexsphere_worker_restarts_total"), states: countOf(orange)},
		column{title: "Panics", query: perWorkerInRange("plexsphere_worker_panics_total"), states: countOf(red)},
	)
}
