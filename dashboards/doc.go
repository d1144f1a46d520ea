// Package dashboards writes the Grafana dashboards: one row a deployment, and everything about one deployment.
//
// The queries are in queries.go and work_queries.go, the panels that ask them in panels.go and the *_panels.go, and which panel stands where
// is in layout.go. The JSON files of this folder are what Files returns; "make golden" and "go generate" write them anew.
//
// # Labels
//
// As for the alerts, all series of one deployment carry the label deployment, on the replicas' metrics and on the exporter's. Panels never add
// up replicas that two Prometheus servers scraped, and never take one exporter's word twice.
//
// # What a panel may say
//
// What is not known is grey and says so, and is never 0. What is 0 is asked for in such a way that it is there: an empty panel means that something is wrong.
// Colour only repeats what a word or a number says.
package dashboards

//go:generate go test -count=1 -run ^TestShippedDashboards -update .
