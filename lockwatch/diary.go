package lockwatch

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// diary logs what changes about a target. It belongs to whoever polls.
type diary struct {
	logger    *slog.Logger
	lastError string // what was logged last, empty while up
	everUp    bool
	warned    bool // about a holder that the role cannot see
	absent    []string
}

// note logs when the target goes down, comes up, or is down for another reason than before, and when one of its databases is
// not there, or is there again.
func (d *diary) note(s Snapshot, err error, absent []string) {
	ctx := context.Background()
	if err != nil {
		if reason := string(reasonOf(err)); reason != d.lastError {
			d.lastError = reason
			d.logger.WarnContext(ctx, "target down", slog.String("reason", reason), slog.Any("error", err))
		}
		return
	}
	if d.lastError != "" || !d.everUp {
		d.logger.InfoContext(ctx, "target up")
	}
	d.lastError, d.everUp = "", true
	if !slices.Equal(absent, d.absent) {
		d.absent = absent
		d.logger.WarnContext(ctx, "databases of the configuration that the server does not have", slog.Any("databases", absent))
	}
	for _, lock := range s.Locks {
		if !d.warned && lock.Holder != nil && !lock.Holder.Visible {
			d.warned = true
			d.logger.WarnContext(ctx, "the role cannot see the holder's details: grant it pg_read_all_stats (or pg_monitor)")
		}
	}
}

// paced logs that polls come less often, or as often as configured again.
func (d *diary) paced(slow bool, spent, interval time.Duration) {
	if slow {
		d.logger.WarnContext(context.Background(), "reading pg_locks takes long: polling less often to keep to the duty cycle",
			slog.Duration("statement", spent), slog.Duration("interval", interval))
		return
	}
	d.logger.InfoContext(context.Background(), "polling as often as configured again", slog.Duration("interval", interval))
}
