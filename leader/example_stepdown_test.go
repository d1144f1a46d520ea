package leader_test

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/plexsphere/leader-exporter/leader"
)

// A rolling restart: on SIGTERM the replica gives leadership up before it drains its requests, so that the background work
// goes on elsewhere while this process still answers. The rest is longer than the drain: this replica does not lead again.
func ExampleElector_StepDown() {
	var elector *leader.Elector // made with leader.New
	var server *http.Server
	const drain = 30 * time.Second

	ctx, stop := context.WithCancel(context.Background())
	go func() { _ = elector.Run(ctx) }()

	terminated, done := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer done()
	<-terminated.Done()

	draining, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if err := elector.StepDown(draining, 2*drain); err != nil {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).WarnContext(draining, "step down", slog.Any("error", err))
	}
	_ = server.Shutdown(draining)
	stop() // Run returns
}
