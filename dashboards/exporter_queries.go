package dashboards

import "fmt"

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
