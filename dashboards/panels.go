package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// Panels about who leads, one deployment at a time.

func verdictPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Leaders now", unit: units.NoUnit, states: leaders(), queries: []query{now("{{deployment}}", verdict())},
		description: "How many replicas claim to lead: 1 in a healthy deployment. Where claims and lock contradict each other, it says so. During a handover it may be red for some check intervals. " +
			"Unknown: no replica is scraped.",
	}.stat()
}

func alertsNowPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Alerts firing", unit: units.NoUnit, states: countOf(red), queries: []query{now("{{deployment}}", alertsFiring())},
		description: "How many of this project's alerts fire. It cannot tell whether Prometheus has the rules: without them it is 0.",
	}.stat()
}

func termPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Present term", missing: "nobody holds the lock, or nobody can tell",
		description: "Which session holds the lock and since when, as the exporter sees it in pg_locks. Without a row, nobody holds the lock or the exporter cannot tell: Exporter, below, says which.",
	}.table(
		[]label{
			{"application_name", "Holder"}, {"usename", "User"}, {"client_addr", "Address"}, {"target", "Target"}, {"datname", "Database"}, {"deployment", ""}, {"lock", ""},
		},
		column{title: "Since", query: term("application_name, usename, client_addr"), unit: units.DatetimeISO},
		column{title: "Backend pid", query: perLock("leader_lock_holder_pid"), unit: units.NoUnit},
		column{title: "Backend since", query: "1000 * " + perLock("leader_lock_holder_backend_start_timestamp_seconds"), unit: units.DatetimeISO},
		column{title: "Details visible", query: perLock("leader_lock_holder_visible"), states: visibleState()},
		column{title: "Foreign", query: foreign(), states: foreignState()},
		column{title: "Waiting", query: perLock("leader_lock_waiters")},
	)
}

func replicasPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Who leads", unit: units.NoUnit, states: replicaRole(), queries: []query{over("{{instance}}", perReplica())},
		description: "What each replica says of itself. One bar is green at any time; two at once for more than two check intervals is a fault. A gap: the replica is not scraped.",
	}.timeline()
}

func lockPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Who holds the lock", unit: units.NoUnit, states: holderState(), queries: []query{over("{{application_name}}", holder())},
		description: "Which session holds the lock, as the exporter sees it in pg_locks: the truth against which the claims above are held. The bar nobody: the lock is free. No bar: the exporter cannot tell.",
	}.timeline()
}

func claimsPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Claims against lock", unit: units.Short,
		queries: []query{
			over("replicas that claim to lead", claims()),
			over("sessions that have the lock", deployed(lock("leader_lock_holders"))),
		},
		description: "Both lines are 1 in a healthy deployment, and leave it for a handover only.",
	}.lines()
}

func heartbeatPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Heartbeat age", unit: units.Seconds,
		queries: []query{
			over("{{target}} {{datname}}", perLock("leader_lock_holder_heartbeat_age_seconds")),
			over("the server ends the session", "vector(4 * ${check_interval})"),
		},
		description: "Time since the holder's last statement: up to one check interval for a leader that lives. The server ends a session that has been silent for four; choose the replicas' check interval above. " +
			"It is not there while nobody holds the lock, or where the exporter's role lacks pg_read_all_stats.",
	}.lines()
}

func rangePanel() *dashboard.PanelBuilder {
	return panel{
		title: "In this range", unit: units.Short, states: plainCount(),
		queries: []query{
			now("terms begun", termsInRange()),
			now("seconds without a holder", secondsInRange("leader_lock_unheld_seconds_total")),
			now("seconds with several holders", secondsInRange("leader_lock_multiple_holders_seconds_total")),
		},
		description: "Counted by the exporter at each poll, so that no change between two scrapes is lost. Time in which the server could not be asked is in none of them. A term that an exporter finds when it starts counts as begun.",
	}.stat()
}

func handoverPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Handovers", unit: units.Seconds, queries: []query{over("{{le}}", handovers())},
		description: "How long the lock was free between one term and the next, by the exporter's histogram. A column is one minute or more; without a handover it is empty.",
	}.heatmap()
}

func sharePanel() *dashboard.PanelBuilder {
	return panel{
		title: "Share of time without one holder", unit: units.PercentUnit,
		queries: []query{
			over("nobody holds the lock", share("leader_lock_unheld_seconds_total")),
			over("several sessions have the lock", share("leader_lock_multiple_holders_seconds_total")),
		},
		description: "Both are 0 outside of handovers. Time in which the server could not be asked counts for neither.",
	}.lines()
}

func alertsPanel() *dashboard.PanelBuilder {
	return panel{
		title: "Alerts", unit: units.NoUnit, states: alertState(), queries: []query{over("{{alertname}}", alertsByName())},
		description: "Which of this project's alerts fired, and when. The bar none: none of them did, or Prometheus does not have the rules.",
	}.timeline()
}
