// Command gpx_leader is the backend of the data source: Grafana starts it and talks to it by gRPC.
package main

import (
	"os"

	"github.com/grafana/grafana-plugin-sdk-go/backend/datasource"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/plugin"
)

func main() {
	if err := datasource.Manage(plugin.ID, plugin.New, datasource.ManageOpts{}); err != nil {
		log.DefaultLogger.Error("the plugin ends", "error", err)
		os.Exit(1)
	}
}
