package leadertest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Client is one host with a network of its own to the server.
type Client struct {
	server  *Server
	name    string
	network *link
}

// Pool returns a pool whose connections reach the server, closed at the end of the test. Each configure function may
// change its configuration before it starts.
func (c *Client) Pool(tb testing.TB, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig("postgres://" + c.name + "@leadertest/leadertest?sslmode=disable&pool_max_conns=4")
	if err != nil {
		tb.Fatalf("leadertest: parse the pool's own connection string: %v", err)
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	config.ConnConfig.DialFunc = c.dial
	config.ConnConfig.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"leadertest"}, nil }
	for _, f := range configure {
		f(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		tb.Fatalf("leadertest: make a pool: %v", err)
	}
	tb.Cleanup(func() {
		c.Heal() // else the pool would wait for its goodbyes
		pool.Close()
	})
	return pool
}

// Cut makes the network a black hole: nothing passes in either direction, no socket is closed, new connections hang.
func (c *Client) Cut() { c.network.setUp(false) }

// Heal lets through again what a cut held back, as retransmission does.
func (c *Client) Heal() { c.network.setUp(true) }

// Delay holds back every later reply of the server for d. Zero ends the delay.
func (c *Client) Delay(d time.Duration) { c.network.setDelay(d) }

// dial connects as pgx asks for it.
func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if !c.network.wait(ctx.Done()) {
		return nil, fmt.Errorf("leadertest: dial from %s: %w", c.name, ctx.Err())
	}
	conn, accepted := c.server.accept(c)
	if !accepted {
		return nil, &net.OpError{Op: "dial", Net: "leadertest", Err: syscall.ECONNREFUSED}
	}
	return conn, nil
}

// link is the state of a network.
type link struct {
	mu    sync.Mutex // guards the fields below
	up    chan struct{}
	isUp  bool
	delay time.Duration
}

func newLink() *link {
	up := make(chan struct{})
	close(up)
	return &link{up: up, isUp: true}
}

func (l *link) setUp(up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case up && !l.isUp:
		close(l.up)
	case !up && l.isUp:
		l.up = make(chan struct{})
	}
	l.isUp = up
}

func (l *link) setDelay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

func (l *link) currentDelay() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delay
}

// wait blocks while the link is cut. It reports false when done was closed first.
func (l *link) wait(done <-chan struct{}) bool {
	l.mu.Lock()
	up := l.up
	l.mu.Unlock()
	select {
	case <-up:
		return true
	default:
	}
	select {
	case <-up:
		return true
	case <-done:
		return false
	}
}
