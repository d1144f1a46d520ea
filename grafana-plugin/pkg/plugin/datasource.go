// Package plugin is the backend of the Grafana data source: it turns what an exporter's API answers into frames.
package plugin

import (
	"context"
	"fmt"
	"maps"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/httpclient"
	"github.com/grafana/grafana-plugin-sdk-go/backend/instancemgmt"
	"github.com/grafana/grafana-plugin-sdk-go/backend/resource/httpadapter"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/exporter"
)

// ID is the id in plugin.json.
const ID = "plexsphere-leader-datasource"

var (
	_ backend.QueryDataHandler      = (*Datasource)(nil)
	_ backend.CheckHealthHandler    = (*Datasource)(nil)
	_ backend.CallResourceHandler   = (*Datasource)(nil)
	_ backend.StreamHandler         = (*Datasource)(nil)
	_ instancemgmt.InstanceDisposer = (*Datasource)(nil)
)

// Datasource answers for one configured data source. Its methods are safe from any goroutine. It has no goroutine of its own:
// Grafana never disposes of a data source that is deleted.
type Datasource struct {
	backend.CallResourceHandler

	uid      string
	exporter *exporter.Client // nil when broken is not
	broken   error            // why the settings are of no use; the health check says it
	disposed context.Context  // ends when the settings have changed
	dispose  context.CancelCauseFunc
}

// New makes the instance for the settings. Settings that are wrong are no error here, so that the health check can say what is.
func New(ctx context.Context, settings backend.DataSourceInstanceSettings) (instancemgmt.Instance, error) {
	d := &Datasource{uid: settings.UID}
	// Not of ctx, which ends with the request that needed the instance.
	d.disposed, d.dispose = context.WithCancelCause(context.Background())
	d.exporter, d.broken = newClient(ctx, settings)
	d.CallResourceHandler = httpadapter.New(d.resources())
	return d, nil
}

// Dispose ends the streams of the instance. Grafana calls it when the settings have changed.
func (d *Datasource) Dispose() {
	d.dispose(errDisposed)
	if d.exporter != nil {
		d.exporter.Close()
	}
}

// newClient makes the client that the settings describe. TLS, basic auth, headers, timeouts and proxy are the SDK's.
func newClient(ctx context.Context, settings backend.DataSourceInstanceSettings) (*exporter.Client, error) {
	options, err := settings.HTTPClientOptions(ctx)
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	if token := settings.DecryptedSecureJSONData["bearerToken"]; token != "" {
		options.Header = maps.Clone(options.Header)
		if options.Header == nil {
			options.Header = make(map[string][]string)
		}
		options.Header.Set("Authorization", "Bearer "+token)
	}
	answers, err := httpclient.New(options)
	if err != nil {
		return nil, fmt.Errorf("settings of TLS: %w", err)
	}
	timeouts := *options.Timeouts
	timeouts.Timeout = 0 // of the whole answer; a stream has no end
	options.Timeouts = &timeouts
	events, err := httpclient.New(options)
	if err != nil {
		return nil, fmt.Errorf("settings of TLS: %w", err)
	}
	return exporter.New(settings.URL, answers, events)
}
