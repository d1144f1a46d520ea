module github.com/plexsphere/leader-exporter

go 1.26.0
