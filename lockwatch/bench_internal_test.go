package lockwatch

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
	"github.com/plexsphere/leader-exporter/lockkey"
)

// BenchmarkPoll has SELECT 1 on the same connection beside it, and the ratio of the medians. The lock has a holder.
func BenchmarkPoll(b *testing.B) {
	db := pgtest.Database(b)
	w, err := New(Config{
		Locks:      []Lock{{Name: "background-leader", Key: lockkey.BackgroundLeader()}},
		ConnConfig: func() (*pgx.ConnConfig, error) { return pgx.ParseConfig(db.DSN) },
		Logger:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer w.disconnect()
	ctx := b.Context()
	if err := w.poll(ctx); err != nil {
		b.Fatal(err)
	}
	var polls, ones []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		begin := time.Now()
		if err := w.poll(ctx); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		var one int
		if err := w.conn.QueryRow(ctx, "SELECT 1").Scan(&one); err != nil {
			b.Fatal(err)
		}
		polls, ones = append(polls, middle.Sub(begin)), append(ones, time.Since(middle))
	}
	slices.Sort(polls)
	slices.Sort(ones)
	poll, one := polls[len(polls)/2], ones[len(ones)/2]
	b.ReportMetric(float64(poll.Nanoseconds()), "poll-ns")
	b.ReportMetric(float64(one.Nanoseconds()), "select1-ns")
	b.ReportMetric(float64(poll)/float64(one), "ratio")
}
