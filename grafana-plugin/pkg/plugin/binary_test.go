package plugin_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/grpcplugin"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/grafana/grafana-plugin-sdk-go/genproto/pluginv2"
	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
)

// dispense starts the built binary as Grafana does, and returns clients of its services.
func dispense(t *testing.T) (services map[string]any) {
	t.Helper()
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: grpcplugin.ProtocolVersion, MagicCookieKey: grpcplugin.MagicCookieKey, MagicCookieValue: grpcplugin.MagicCookieValue,
		},
		VersionedPlugins: map[int]goplugin.PluginSet{grpcplugin.ProtocolVersion: {
			"diagnostics": &grpcplugin.DiagnosticsGRPCPlugin{}, "data": &grpcplugin.DataGRPCPlugin{},
			"resource": &grpcplugin.ResourceGRPCPlugin{}, "stream": &grpcplugin.StreamGRPCPlugin{},
		}},
		Cmd:              exec.Command(stack.pluginBinary),
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
	})
	t.Cleanup(client.Kill)
	protocol, err := client.Client()
	if err != nil {
		t.Fatal(err)
	}
	services = make(map[string]any)
	for _, name := range []string{"diagnostics", "data", "resource", "stream"} {
		if services[name], err = protocol.Dispense(name); err != nil {
			t.Fatal(err)
		}
	}
	return services
}

func TestTheBinaryAnswersAsGrafanaAsks(t *testing.T) {
	database := newDatabase(t)
	e := startExporter(t, dsn(database), "127.0.0.1:0")
	lead(t, database, "api-1")
	e.await(t, "api-1")
	services := dispense(t)
	diagnostics, _ := services["diagnostics"].(grpcplugin.DiagnosticsClient)
	queries, _ := services["data"].(grpcplugin.DataClient)
	resources, _ := services["resource"].(grpcplugin.ResourceClient)
	streams, _ := services["stream"].(grpcplugin.StreamClient)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	grafana := backend.ToProto().PluginContext(backend.PluginContext{
		Namespace: "default", PluginID: "plexsphere-leader-datasource",
		DataSourceInstanceSettings: &backend.DataSourceInstanceSettings{
			ID: 1, UID: "uid", Name: "Leader", URL: e.url, Type: "plexsphere-leader-datasource", JSONData: []byte(`{}`), Updated: time.Now(),
		},
	})

	health, err := diagnostics.CheckHealth(ctx, &pluginv2.CheckHealthRequest{PluginContext: grafana})
	if err != nil || health.Status != pluginv2.CheckHealthResponse_OK {
		t.Fatalf("health: %v, %v", health, err)
	}
	metrics, err := diagnostics.CollectMetrics(ctx, &pluginv2.CollectMetricsRequest{PluginContext: grafana})
	if err != nil || !strings.Contains(string(metrics.Metrics.Prometheus), "go_goroutines") {
		t.Errorf("metrics: %v", err)
	}
	var frames data.Frames
	eventually(t, func() (bool, any) {
		answer, err := queries.QueryData(ctx, &pluginv2.QueryDataRequest{PluginContext: grafana, Queries: []*pluginv2.DataQuery{
			{RefId: "A", QueryType: "current", Json: []byte(`{"live": true}`), TimeRange: backend.ToProto().TimeRange(recent())},
			{RefId: "B", QueryType: "nothing", Json: []byte(`{}`), TimeRange: backend.ToProto().TimeRange(recent())},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Responses["B"].Error == "" || answer.Responses["B"].ErrorSource != "downstream" {
			t.Fatalf("an unknown query answers %+v", answer.Responses["B"])
		}
		if frames, err = data.UnmarshalArrowFrames(answer.Responses["A"].Frames); err != nil || len(frames) != 1 {
			t.Fatalf("frames %v, %v: %s", frames, err, answer.Responses["A"].Error)
		}
		return cell(t, frames[0], "holder", 0) == "api-1", frames[0]
	})
	resource, err := resources.CallResource(ctx, &pluginv2.CallResourceRequest{PluginContext: grafana, Method: "GET", Path: "databases", Url: "databases?target=default"})
	if err != nil {
		t.Fatal(err)
	}
	if packet, err := resource.Recv(); err != nil || strings.TrimSpace(string(packet.Body)) != `["`+database+`"]` {
		t.Errorf("resource: %v, %v", packet, err)
	}
	path := strings.TrimPrefix(frames[0].Meta.Channel, "ds/uid/")
	subscribed, err := streams.SubscribeStream(ctx, &pluginv2.SubscribeStreamRequest{PluginContext: grafana, Path: path})
	if err != nil || subscribed.Status != pluginv2.SubscribeStreamResponse_OK {
		t.Fatalf("subscribe: %v, %v", subscribed, err)
	}
	stream, err := streams.RunStream(ctx, &pluginv2.RunStreamRequest{PluginContext: grafana, Path: path})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() (bool, any) {
		packet, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		var frame data.Frame
		if err := json.Unmarshal(packet.Data, &frame); err != nil {
			t.Fatalf("stream: %v: %s", err, packet.Data)
		}
		return cell(t, &frame, "holder", 0) == "api-1", string(packet.Data)
	})
}
