package plugin_test

import (
	"strings"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
)

// FuzzQuery holds that a query is answered, or refused as its author's mistake, and that a channel that is given can be subscribed to.
func FuzzQuery(f *testing.F) {
	for _, text := range []string{``, `{}`, `{"live": true}`, `{"targets": ["eu", "\u0000", ","], "locks": ["$lock"]}`, `{"limit": 1e9}`, `[]`, `{"stat": 1}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := instance(t, backend.DataSourceInstanceSettings{URL: "http://exporter.invalid"})
		answer := ask(t, d, "events", text, at())
		if answer.Error != nil {
			if answer.ErrorSource != backend.ErrorSourceDownstream {
				t.Errorf("%q is the plugin's fault: %v", text, answer.Error)
			}
			return
		}
		channel := answer.Frames[0].Meta.Channel
		if channel == "" {
			return
		}
		if strings.Trim(channel, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/=.") != "" || len(channel) > 160 {
			t.Errorf("Grafana refuses the channel %q", channel)
		}
		subscribed, err := d.SubscribeStream(t.Context(), &backend.SubscribeStreamRequest{Path: strings.TrimPrefix(channel, "ds/uid/")})
		if err != nil || subscribed.Status != backend.SubscribeStreamStatusOK {
			t.Errorf("channel %q is refused: %v", channel, err)
		}
	})
}
