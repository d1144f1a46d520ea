// Package exporter is a client of the HTTP API of leader-exporter.
package exporter
