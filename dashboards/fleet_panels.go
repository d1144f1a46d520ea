package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// Panels over all deployments.

func deploymentsPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Deployments", unit: units.Short, states: plainCount(),
		queries: []query{
			now("deployments", allDeployments()),
			now("with one leader", deployments("== 1")),
		},
		description: "Deployments of which replicas or exporter are scraped, and those in which exactly one replica claims to lead. Both numbers are equal when all is well.",
	}.stat()
}

func unhealthyPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Deployments without exactly one leader", unit: units.Short, states: countOf(red),
		queries: []query{
			now("no leader", deployments("== 0")),
			now("several leaders", deployments("> 1")),
			now("no replica is scraped", silentDeployments()),
		},
		description: "All are 0 when all is well. A handover shows as no leader for some check intervals.",
	}.stat()
}

func fleetPanel() *dashboard.PanelBuilder {
	return panel{
		title:       "Who leads",
		description: "One row a deployment. Terms and free time are those of this range. Unknown: replicas or exporter are not scraped, or the exporter's server does not answer. The name leads to the deployment's own dashboard.",
	}.table(
		[]label{{"deployment", "Deployment"}, {"application_name", "Holder of the lock"}},
		column{title: "Leaders", query: claims(), states: leaders()},
		column{title: "Lock", query: held(), states: lockState()},
		column{title: "Holders by that name", query: holder(), missing: unknown},
		column{title: "Leads since", query: "1000 * " + deployed(lock("leader_lock_term_start_timestamp_seconds")), unit: units.DateTimeFromNow, missing: "nobody leads, or unknown"},
		column{title: "Heartbeat age", query: deployed(lock("leader_lock_holder_heartbeat_age_seconds")), unit: units.Seconds, missing: "nobody leads, or unknown"},
		column{title: "Terms begun", query: termsInRange()},
		column{title: "Lock free", query: secondsInRange("leader_lock_unheld_seconds_total"), unit: units.Seconds},
		column{title: "Exporter", query: up(), states: upState()},
		column{title: "Alerts firing", query: alertsFiring(), states: countOf(red)},
	).OverrideByName("Deployment", linkToDeployment()).
		OverrideByName("Holders by that name", []dashboard.DynamicConfigValue{{Id: "custom.hidden", Value: true}})
}
