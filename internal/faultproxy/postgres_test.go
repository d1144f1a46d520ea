package faultproxy_test

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plexsphere/leader-exporter/internal/faultproxy"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// through returns a connection to a database of its own that passes a proxy, and one that does not.
func through(t *testing.T) (proxy *faultproxy.Proxy, proxied, direct *pgx.Conn) {
	t.Helper()
	db := pgtest.Database(t)
	config, err := pgx.ParseConfig(db.DSN)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err = faultproxy.Start(net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	config.Host, config.Port = proxy.Host(), proxy.Port()
	proxied, err = pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // in no time: the network may be cut
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = proxied.Close(ctx)
	})
	return proxy, proxied, db.Connect(t)
}

// tryLock reports whether a session gets the lock.
func tryLock(t *testing.T, conn *pgx.Conn) bool {
	t.Helper()
	var locked bool
	if err := conn.QueryRow(t.Context(), "SELECT pg_try_advisory_lock(1, 2)").Scan(&locked); err != nil {
		t.Fatal(err)
	}
	return locked
}

func TestIsolateFreesTheLockOfAClientThatLearnsNothing(t *testing.T) {
	proxy, proxied, direct := through(t)
	if !tryLock(t, proxied) || tryLock(t, direct) {
		t.Fatal("the proxied session does not hold the lock")
	}
	heard := make(chan error, 1)
	go func() { heard <- proxied.PgConn().WaitForNotification(t.Context()) }()
	proxy.Isolate()
	pgtest.Eventually(t, patience, "the lock is free", func() (bool, string) { return tryLock(t, direct), "it is held" })
	select {
	case err := <-heard:
		t.Fatalf("the client learned of it: %v", err)
	case <-time.After(silence):
	}
	proxy.Heal()
	select {
	case err := <-heard:
		if err == nil {
			t.Error("the client waited for its end and got none")
		}
	case <-time.After(patience):
		t.Error("the client learns nothing after Heal")
	}
}

func TestStatementSentWhileCutRunsAfterHeal(t *testing.T) {
	const create = "CREATE TABLE held_on_the_wire ()"
	proxy, proxied, direct := through(t)
	proxy.Record()
	proxy.Cut()
	done := make(chan error, 1)
	go func() {
		_, err := proxied.PgConn().Exec(t.Context(), create).ReadAll()
		done <- err
	}()
	pgtest.Eventually(t, patience, "the statement is on the wire", func() (bool, string) {
		return bytes.Contains(proxy.Sent(), []byte(create)), string(proxy.Sent())
	})
	var exists bool
	const ask = "SELECT to_regclass('held_on_the_wire') IS NOT NULL"
	if err := direct.QueryRow(t.Context(), ask).Scan(&exists); err != nil || exists {
		t.Fatalf("the statement ran while cut: %v, %v", exists, err)
	}
	proxy.Heal()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := direct.QueryRow(t.Context(), ask).Scan(&exists); err != nil || !exists {
		t.Errorf("the statement did not run after Heal: %v, %v", exists, err)
	}
}
