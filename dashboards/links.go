package dashboards

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// Links keep the data source, the lock and the range.

// linkToDeployment makes a deployment's name a link to its dashboard, with the range, the data source and the lock of this one.
func linkToDeployment() []dashboard.DynamicConfigValue {
	return []dashboard.DynamicConfigValue{{Id: "links", Value: []map[string]any{{
		"title": "Open ${__value.text}",
		"url":   "/d/" + deploymentUID + "?${datasource:queryparam}&${lock:queryparam}&var-deployment=${__value.text:percentencode}&${__url_time_range}",
	}}}}
}

func linkToFleet() *dashboard.DashboardLinkBuilder {
	return dashboard.NewDashboardLinkBuilder("All deployments").Type(dashboard.DashboardLinkTypeLink).
		Url("/d/" + fleetUID + "?${datasource:queryparam}&${lock:queryparam}").KeepTime(true)
}
