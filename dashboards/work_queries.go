package dashboards

import "fmt"

// ticks is the growth over a range of the passes that ended so, of each replica, loop and result.
func ticks(function, window, results string) string {
	return fmt.Sprintf("max by (deployment, instance, loop, result) (%s(%s[%s]))",
		function, ofWith("plexsphere_background_loop_ticks_total", fmt.Sprintf("result=~%q", results)), window)
}

// passRate is the number of passes a second by result, over all replicas and loops.
func passRate() string {
	return fmt.Sprintf("sum by (deployment, result) (%s)", ticks("rate", "$__rate_interval", ".+"))
}

// passesInRange is the number of passes of each loop that ended so.
func passesInRange(results string) string {
	return fmt.Sprintf("sum by (loop) (%s)", ticks("increase", "$__range", results))
}

// passDuration is a quantile of the passes' durations; NaN for a loop that made none.
func passDuration(quantile string) string {
	return fmt.Sprintf("histogram_quantile(%s, sum by (loop, le) (max by (deployment, instance, loop, le) (increase(%s[$__range]))))",
		quantile, of("plexsphere_background_loop_tick_duration_seconds_bucket"))
}

// lastSuccess is how long ago any replica last ended a pass without an error; absent for a loop that never did.
func lastSuccess() string {
	return fmt.Sprintf("time() - max by (loop) (%s)", of("plexsphere_background_loop_last_success_timestamp_seconds"))
}

func running() string {
	return fmt.Sprintf("max by (deployment, instance, loop) (%s)", of("plexsphere_background_loop_running"))
}

// underWay is the number of loops that are in a pass right now on each replica. They are there from the start.
func underWay() string {
	return fmt.Sprintf("sum by (loop) (%s)", running())
}

// underWayWhere counts the passes under way on the replicas for which the factor is 1. Both gauges come from one scrape of one process.
func underWayWhere(factor string) string {
	return fmt.Sprintf("sum by (deployment) (%s * on (deployment, instance) group_left () (%s))", running(), factor)
}

// perWorker adds up a metric of workers over the replicas.
func perWorker(aggregation, metric string) string {
	return fmt.Sprintf("%s by (worker) (max by (deployment, instance, worker) (%s))", aggregation, of(metric))
}

// perWorkerInRange adds up a counter's growth.
func perWorkerInRange(metric string) string {
	return fmt.Sprintf("sum by (worker) (max by (deployment, instance, worker) (increase(%s[$__range])))", of(metric))
}
