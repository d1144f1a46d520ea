// Package alerts writes the alert rules of a deployment as a function of its intervals.
//
// What a healthy handover looks like to Prometheus depends on how often the replicas check, how often they are scraped, and how often the
// rules are evaluated. A fixed `for` is too short for one installation and too long for the next, so each is derived here, by
// one formula with its reason beside it; the reason is written into the rules too. The file background-leader.rules.yaml is what Rules
// returns for its defaults.
//
// # Labels
//
// All series of one deployment carry the labels of Params.GroupBy, on the replicas' metrics and on the exporter's: that is how a
// claim meets the lock. Every alert carries them too, so that Alertmanager can group and inhibit by them.
//
// # What this does not guarantee
//
//   - One claim alone is not checked against who claims: a replica that claims while another one holds the lock is one claim on a held lock.
//   - The sum of claims sees replicas through their last scrape. A series that ends without a mark of staleness, because Prometheus itself
//     was away or because it comes by federation, counts for five minutes more.
//   - A loop's cadence is in no metric. A loop that is not run at all, by a worker that lives, is not noticed.
//   - What neither replica nor exporter has reported on for six hours is taken for gone.
package alerts
