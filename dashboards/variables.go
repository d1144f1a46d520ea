package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// defaultLock is the name under which the exporter watches the leader's lock, unless its configuration names another.
const defaultLock = "background-leader"

func datasourceVariable() *dashboard.DatasourceVariableBuilder {
	return dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus").
		Description("The Prometheus that scrapes replicas and exporter.")
}

// names asks for the values of a label.
func names(variable, series string) *dashboard.QueryVariableBuilder {
	query := "label_values(" + series + ", " + variable + ")"
	return dashboard.NewQueryVariableBuilder(variable).Datasource(datasource()).Query(dashboard.StringOrMap{String: &query}).Definition(query).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalCaseInsensitiveAsc)
}

// anySeries are those that either replicas or the exporter of a deployment have.
const anySeries = `{__name__=~"plexsphere_background_leader|leader_lock_up"}`

func deploymentVariable() *dashboard.QueryVariableBuilder {
	return names("deployment", anySeries).Label("Deployment").Multi(false).IncludeAll(false).
		Description("The value of the label deployment, which Prometheus puts on the series of replicas and exporter.")
}

// deploymentsVariable has a value of its own for all: deployments that appear later belong to it, and so do series without the label.
func deploymentsVariable() *dashboard.QueryVariableBuilder {
	return deploymentVariable().Multi(true).IncludeAll(true).AllValue(".*").Current(option("All", "$__all"))
}

func lockVariable() *dashboard.QueryVariableBuilder {
	return names("lock", of("leader_lock_terms_total")).Label("Lock").Multi(false).IncludeAll(false).Current(option(defaultLock, defaultLock)).
		Description("The name under which the exporter watches the leader's lock.")
}

func checkIntervalVariable() *dashboard.CustomVariableBuilder {
	values := "5,1,2,3,10,15,20,30,60"
	return dashboard.NewCustomVariableBuilder("check_interval").Label("Check interval, s").
		Values(dashboard.StringOrMap{String: &values}).Multi(false).IncludeAll(false).Current(option("5", "5")).
		Description("The replicas' CheckInterval in seconds, which no metric tells: the bound in Heartbeat age follows from it.")
}

func option(text, value string) dashboard.VariableOption {
	return dashboard.VariableOption{
		Selected: new(true), Text: dashboard.StringOrArrayOfString{String: &text}, Value: dashboard.StringOrArrayOfString{String: &value},
	}
}

// newTerms marks each moment at which a term began, with the name of who leads from then on. The value of the series is that moment.
func newTerms() *dashboard.AnnotationQueryBuilder {
	return dashboard.NewAnnotationQueryBuilder().Name("New leader").Datasource(datasource()).Enable(true).Hide(false).IconColor(blue).
		Expr(term("application_name")).UseValueForTime(true).Step("15s").TitleFormat("{{application_name}} leads").TextFormat("{{target}} {{datname}}")
}

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
