package faultproxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// link is a client's connection with the one that was dialled for it. Two goroutines a direction carry it: one reads, the
// other writes what was read.
type link struct {
	proxy    *Proxy
	client   *net.TCPConn
	cancel   context.CancelFunc // ends whatever runs for the link
	up, down direction

	// Guarded by proxy.mu.
	server   *net.TCPConn // nil until it is dialled
	dialling bool         // the target has heard, or is about to hear, of this connection
	isolated bool         // Isolate met it; the server's end is closed, or is to be
}

func newLink(p *Proxy, client *net.TCPConn, cancel context.CancelFunc) *link {
	return &link{proxy: p, client: client, cancel: cancel, up: newDirection(p.gate), down: newDirection(p.gate)}
}

// closeLocked closes both ends at once. Needs proxy.mu.
func (l *link) closeLocked() {
	l.cancel()
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

// run carries the link to its end: when both directions have passed on that they ended.
func (l *link) run(ctx context.Context) {
	p := l.proxy
	p.running.Go(func() { l.up.fill(ctx, l.client, p.fromClient) })
	if server := l.dial(ctx); server != nil {
		p.running.Go(func() { l.down.fill(ctx, server, p.fromServer) })
		var ends sync.WaitGroup
		ends.Go(func() { l.carry(ctx, &l.up, server) })
		ends.Go(func() { l.carry(ctx, &l.down, l.client) })
		ends.Wait()
	}
	p.whenOpen(ctx, func() {
		l.closeLocked()
		delete(p.links, l)
	})
}

// dial connects to the target when the network is whole. It returns nil when the link is over instead: a target that
// refuses is passed on as a reset.
func (l *link) dial(ctx context.Context) *net.TCPConn {
	p := l.proxy
	p.whenOpen(ctx, func() { l.dialling = true })
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", p.target)
	server, ok := conn.(*net.TCPConn)
	if err != nil || !ok {
		p.whenOpen(ctx, func() { _ = l.client.SetLinger(0) })
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.server = server
	if l.isolated || ctx.Err() != nil {
		_ = server.Close()
	}
	return server
}

// carry writes a direction's chunks to dst and passes on how their source ended.
func (l *link) carry(ctx context.Context, d *direction, dst *net.TCPConn) {
	end := d.drain(ctx, dst)
	if end == nil {
		return
	}
	l.proxy.whenOpen(ctx, func() {
		if errors.Is(end, io.EOF) {
			_ = dst.CloseWrite() // the other direction may have something to say yet
			return
		}
		if !errors.Is(end, net.ErrClosed) { // which is what Isolate makes of the server's end
			_ = dst.SetLinger(0)
		}
		l.closeLocked()
	})
}
