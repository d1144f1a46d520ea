package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// Panels about the exporter and its view of the server, one deployment at a time.

func upPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Exporter", unit: units.NoUnit, states: upState(), queries: []query{over("{{target}}", targeted(of("leader_lock_up")))},
		description: "Whether the server answers the exporter. While it does not, who holds the lock is unknown. A gap: the exporter is not scraped.",
	}.timeline()
}

func serverPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Server", unit: units.NoUnit, states: serverRole(), queries: []query{now("{{target}}", targeted(of("leader_lock_database_in_recovery")))},
		description: "A hot standby knows nothing of the primary's locks, so nobody watches the leader's.",
	}.stat()
}

func answerPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Time since the last answer", unit: units.Seconds, queries: []query{over("{{target}}", lastAnswer())},
		description: "How old the exporter's knowledge is. It grows to one scrape interval and one poll interval, and falls back.",
	}.lines()
}

func pollPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Poll duration", unit: units.Seconds,
		queries:     []query{over("mean, {{target}}", pollDuration()), over("99 %, {{target}}", pollQuantile("0.99"))},
		description: "What reading pg_locks costs. Other sessions' lock calls wait meanwhile.",
	}.lines()
}

func intervalPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Poll interval", unit: units.Seconds, queries: []query{over("{{target}}", targeted(of("leader_exporter_poll_interval_seconds")))},
		description: "Time between two polls. The exporter stretches it where a poll takes long, to keep to its share of the server's time; changes of the leader are seen that much later.",
	}.lines()
}

func locksPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Locks on the server", unit: units.Short, queries: []query{over("{{target}}", targeted(of("leader_exporter_server_locks")))},
		description: "Rows of pg_locks: what a poll has to read.",
	}.lines()
}

func failuresPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Failed polls", unit: "ops", queries: []query{over("{{reason}}, {{target}}", pollFailures())},
		description: "Polls that failed, by reason. All are 0 while the server answers.",
	}.lines()
}
