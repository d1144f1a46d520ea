// Command leader-exporter proves from pg_locks who leads, and exports it to Prometheus.
package main

import "github.com/plexsphere/leader-exporter/internal/cli"

func main() { cli.Main(run) }
