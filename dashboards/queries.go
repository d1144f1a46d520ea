package dashboards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

// query is one question to Prometheus.
type query struct {
	expr   string
	legend string // the name of each series, with {{label}}
	now    bool   // asked for the end of the range alone
	format prometheus.PromQueryFormat
}

// over asks for the whole range.
func over(legend, expr string) query {
	return query{expr: expr, legend: legend, format: prometheus.PromQueryFormatTimeSeries}
}

// now asks for the end of the range.
func now(legend, expr string) query {
	return query{expr: expr, legend: legend, now: true, format: prometheus.PromQueryFormatTimeSeries}
}

// Variables stand in raw strings and in their regex form. Grafana escapes the value of a single-valued variable in no other form, and a
// name with a dot or a plus would match another deployment, or none.
const (
	ofDeployment = "deployment=~`${deployment:regex}`"
	ofLock       = "lock=~`${lock:regex}`"
)

// of selects a metric of the deployment.
func of(metric string) string { return fmt.Sprintf("%s{%s}", metric, ofDeployment) }

// ofWith selects a metric of the deployment with one matcher more.
func ofWith(metric, matcher string) string {
	return fmt.Sprintf("%s{%s,%s}", metric, ofDeployment, matcher)
}

// lock selects a metric of the deployment's lock.
func lock(metric string) string { return ofWith(metric, ofLock) }

// perReplica is 1 for each replica that claims to lead, 0 for the others. Of a replica that is scraped twice, the larger counts.
func perReplica() string {
	return fmt.Sprintf("max by (deployment, instance) (%s)", of("plexsphere_background_leader"))
}

// claims is the number of replicas that claim to lead. It is absent where no replica is scraped.
func claims() string { return fmt.Sprintf("sum by (deployment) (%s)", perReplica()) }

// deployed takes the largest of each deployment: two exporters that watch one server say the same.
func deployed(expr string) string { return fmt.Sprintf("max by (deployment) (%s)", expr) }

func held() string { return deployed(lock("leader_lock_held")) }

func up() string { return deployed(of("leader_lock_up")) }

// verdict is the number of leaders, except where claims and lock contradict each other: -1 is a lock that is held and that nobody claims, -2
// one leader without the lock. Several leaders are worse than either, and stay a number.
func verdict() string {
	return fmt.Sprintf(`(%[1]s == 0 and %[2]s == 1) - 1
or
(%[1]s == 1 and %[2]s == 0) - 3
or
%[1]s`, claims(), held())
}

// holder is 1 with the name of the session that holds the lock. It has the name nobody where the exporter sees that nobody does, and is absent
// where the exporter cannot tell.
func holder() string {
	return fmt.Sprintf(`max by (deployment, application_name) (%s)
or
label_replace(%s == 0, "application_name", "nobody", "", "") + 1`, lock("leader_lock_holder_info"), held())
}

// lockLabels tell one watched lock from the next.
const lockLabels = "deployment, target, datname, lock"

// term is when the present term began, in milliseconds, with what is known of the holder.
func term(labels string) string {
	return fmt.Sprintf(`1000
* max by (%[1]s, %[2]s) (%[3]s)
* on (%[1]s) group_left ()
max by (%[1]s) (%[4]s)`, lockLabels, labels, lock("leader_lock_holder_info"), lock("leader_lock_term_start_timestamp_seconds"))
}

// perLock takes a metric of the lock apart by what is watched.
func perLock(metric string) string {
	return fmt.Sprintf("max by (%s) (%s)", lockLabels, lock(metric))
}

// foreign is -1 where no names are expected, and the metric is therefore absent.
func foreign() string {
	return fmt.Sprintf("%s or %s * 0 - 1", perLock("leader_lock_foreign_holder"), perLock("leader_lock_holder_visible"))
}

// termsInRange is exact while the exporter lives: increase() would extrapolate. After a restart its counter finds the leader that is there and
// counts it again, which resets() takes away.
func termsInRange() string {
	return deployed(fmt.Sprintf(`
  max_over_time(%[1]s[$__range]) - min_over_time(%[1]s[$__range]) unless resets(%[1]s[$__range]) > 0
  or
  round(increase(%[1]s[$__range]) - resets(%[1]s[$__range]))
`, lock("leader_lock_terms_total")))
}

// secondsInRange is the growth of a counter of seconds over the whole range.
func secondsInRange(metric string) string {
	return deployed(fmt.Sprintf("increase(%s[$__range])", lock(metric)))
}

// share is the part of the time in which a counter of seconds grew.
func share(metric string) string {
	return deployed(fmt.Sprintf("rate(%s[$__rate_interval])", lock(metric)))
}

// handovers are the handovers by duration. Each exporter that watches the lock has seen all of them.
func handovers() string {
	return fmt.Sprintf("sum by (le) (max by (%s, le) (increase(%s[$__rate_interval])))",
		lockLabels, lock("leader_lock_handover_duration_seconds_bucket"))
}

// firing are the project's alerts that fire.
func firing() string {
	return ofWith("ALERTS", `alertstate="firing",alertname=~"Background(Leader|Loop|Worker).+|LeaderExporter.+"`)
}

// witness is there as long as replicas or exporter are scraped: where nothing fires, 0 needs somebody who says it.
func witness() string {
	return fmt.Sprintf("(count by (deployment) (%s) or count by (deployment) (%s))", of("leader_lock_up"), of("plexsphere_background_leader"))
}

func alertsFiring() string {
	return fmt.Sprintf("count by (deployment) (max by (deployment, alertname) (%s)) or 0 * %s", firing(), witness())
}

// alertsByName has one series more, which is there, and 0, while nothing fires.
func alertsByName() string {
	return fmt.Sprintf(`max by (deployment, alertname) (%[1]s)
or
label_replace(0 * %[2]s unless on (deployment) %[1]s, "alertname", "none", "", "")`, firing(), witness())
}

// targeted takes the largest of each watched server.
func targeted(expr string) string { return fmt.Sprintf("max by (deployment, target) (%s)", expr) }

// lastAnswer is how long ago the server last answered.
func lastAnswer() string {
	return "time() - " + targeted(of("leader_exporter_last_success_timestamp_seconds"))
}

// pollDuration is the mean of the polls. Each exporter that watches the server polls for itself: the slower one counts.
func pollDuration() string {
	return targeted(fmt.Sprintf("rate(%s[$__rate_interval]) / rate(%s[$__rate_interval])",
		of("leader_exporter_poll_duration_seconds_sum"), of("leader_exporter_poll_duration_seconds_count")))
}

func pollQuantile(quantile string) string {
	return fmt.Sprintf("histogram_quantile(%s, max by (deployment, target, le) (rate(%s[$__rate_interval])))",
		quantile, of("leader_exporter_poll_duration_seconds_bucket"))
}

func pollFailures() string {
	return fmt.Sprintf("max by (deployment, target, reason) (rate(%s[$__rate_interval]))", of("leader_exporter_poll_failures_total"))
}

// deployments is the number of deployments that a condition on the number of leaders selects, 0 included: with nothing to count, count() is
// absent, which would be the same as knowing nothing.
func deployments(condition string) string {
	return fmt.Sprintf("count(%[1]s %[2]s) or 0 * count(%[1]s)", claims(), condition)
}

// allDeployments are those of which replicas or exporter are scraped.
func allDeployments() string { return fmt.Sprintf("count(%s)", witness()) }

// silentDeployments are those that an exporter watches and of which no replica is scraped.
func silentDeployments() string {
	return fmt.Sprintf("count(%[1]s unless %[2]s) or 0 * count(%[1]s)", up(), claims())
}
