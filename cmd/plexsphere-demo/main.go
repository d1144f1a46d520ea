// Command plexsphere-demo shows an election on one machine: replicas, exporter, Prometheus and Alertmanager over a throw-away PostgreSQL.
package main

import "github.com/plexsphere/leader-exporter/internal/cli"

func main() { cli.Main(run) }
