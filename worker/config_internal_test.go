package worker

import (
	"log/slog"
	"math"
	"testing"
	"time"
)

func TestDefaultsFillInWhatIsNotSet(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ given, want Config }{
		"nothing set": {Config{}, Config{
			MinBackoff: time.Second, MaxBackoff: time.Minute, Restarts: 10, Window: 10 * time.Minute, StopTimeout: 10 * time.Second,
		}},
		"negative": {Config{MinBackoff: -1, MaxBackoff: -1, Restarts: -1, Window: -1, StopTimeout: -1}, Config{
			MinBackoff: time.Second, MaxBackoff: time.Minute, Restarts: 0, Window: 10 * time.Minute, StopTimeout: -1,
		}},
		"long first backoff": {Config{MinBackoff: time.Hour, Restarts: 1}, Config{
			MinBackoff: time.Hour, MaxBackoff: time.Hour, Restarts: 1, Window: 10 * time.Minute, StopTimeout: 10 * time.Second,
		}},
		"backoffs that outlast the default window": {Config{MinBackoff: time.Minute, Restarts: 11}, Config{
			MinBackoff: time.Minute, MaxBackoff: time.Minute, Restarts: 11, Window: 20 * time.Minute, StopTimeout: 10 * time.Second,
		}},
		"a budget that no process outlives": {Config{Restarts: math.MaxInt}, Config{
			MinBackoff: time.Second, MaxBackoff: time.Minute, Restarts: math.MaxInt, Window: math.MaxInt64 / 4 * 2, StopTimeout: 10 * time.Second,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.given.withDefaults()
			if got.Logger != slog.Default() {
				t.Error("the default logger is not slog's")
			}
			if got.MinBackoff != tc.want.MinBackoff || got.MaxBackoff != tc.want.MaxBackoff || got.Restarts != tc.want.Restarts ||
				got.Window != tc.want.Window || got.StopTimeout != tc.want.StopTimeout {
				t.Errorf("withDefaults() = %+v, want %+v", got, tc.want)
			}
		})
	}
}
