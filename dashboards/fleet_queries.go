package dashboards

import "fmt"

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
