package main

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/internal/child"
)

// floorName is the station beside which the cheapest possible poller runs: a process that asks SELECT 1 once a second and does no more.
const floorName = "SELECT 1 each second"

// startFloor starts that process at the station, and waits until it is connected.
func startFloor(ctx context.Context, s *station) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if s.exporter, err = child.Start(exec.Command(program, "-floor", s.server.DSN("postgres")+"&application_name=floor"), syscall.SIGKILL); err != nil {
		return err
	}
	return eventually(ctx, "the process that asks SELECT 1 is connected", func() bool {
		var connected bool
		err := s.admin.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'floor')").Scan(&connected)
		return err == nil && connected
	})
}

// askEachSecond is that process.
func askEachSecond(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for pause(ctx, time.Second) == nil {
		var one int
		if err := conn.QueryRow(ctx, "SELECT 1").Scan(&one); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}
