// Package faultproxy is a TCP proxy that behaves as a broken network does.
//
// It stands between a client and a server of a fault test. The kernel still acknowledges what a cut proxy holds, so
// TCP keep-alives and TCP_USER_TIMEOUT notice nothing: what is tested is a program's own deadlines.
package faultproxy

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Proxy forwards the connections to its address to a target. All its methods are safe from any goroutine.
type Proxy struct {
	target   string
	listener *net.TCPListener
	address  *net.TCPAddr
	gate     *gate // moved under mu only
	running  sync.WaitGroup

	mu        sync.Mutex // guards what follows, and each link's server and its flags; before a direction's busy
	links     map[*link]struct{}
	delay     time.Duration
	recording bool
	sent      []byte
	closed    bool
}

// Start listens on a free port of 127.0.0.1 and forwards to target, a host:port that is dialled once for each connection.
// It fails when it cannot listen. End it with Close.
func Start(target string) (*Proxy, error) {
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("faultproxy: start: %w", err)
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		_ = listener.Close()
		return nil, fmt.Errorf("faultproxy: start: %v is no TCP address", listener.Addr())
	}
	p := &Proxy{target: target, listener: listener, address: address, gate: newGate(), links: make(map[*link]struct{})}
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the proxy's host:port.
func (p *Proxy) Addr() string { return p.address.String() }

// Host returns the host of Addr, as pgx's ConnConfig wants it.
func (p *Proxy) Host() string { return p.address.IP.String() }

// Port returns the port of Addr, as pgx's ConnConfig wants it.
func (p *Proxy) Port() uint16 { return p.address.AddrPort().Port() }

// Cut parts the network. Once it has returned, no byte and no close gets from one end to the other, and the proxy closes
// nothing. What is sent is held. A new connection is accepted, as the kernel does, and the target does not hear of it.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutLocked()
}

func (p *Proxy) cutLocked() {
	p.gate.shut()
	for l := range p.links {
		l.down.interrupt(l.client)
		if l.server != nil {
			l.up.interrupt(l.server)
		}
	}
}

// Heal ends Cut and Isolate: what was held goes on in order, as TCP's retransmissions do, then the closes that happened
// meanwhile, and connections that wait are dialled. A connection that Isolate met is closed.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate.lift()
}

// Isolate cuts the network and then closes the server's end of every connection: the server's session ends, and the client
// learns nothing of it before Heal.
func (p *Proxy) Isolate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutLocked()
	for l := range p.links {
		l.isolated = l.dialling
		if l.server != nil {
			_ = l.server.Close()
		}
	}
}

// Sever closes every connection at both ends at once, cut or not, with a reset for the client. Later connections work.
func (p *Proxy) Sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		_ = l.client.SetLinger(0)
		l.closeLocked()
	}
}

// Delay holds back what the server sends from now on, its close too, each chunk for d from its own arrival, in order. Zero
// ends that for what comes later.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Record makes Sent collect what clients send from now on.
func (p *Proxy) Record() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recording = true
}

// Sent returns a copy of what clients sent since Record, also of what is held. With several connections at a time their
// bytes are mixed.
func (p *Proxy) Sent() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sent)
}

// Close ends all connections and waits until nothing of the proxy runs. A second Close does nothing.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	_ = p.listener.Close()
	for l := range p.links {
		l.closeLocked()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// accept starts a link for each connection.
func (p *Proxy) accept() {
	defer func() { _ = p.listener.Close() }() // nobody is to wait for an accept that does not come
	for {
		client, err := p.listener.AcceptTCP()
		if err != nil {
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		l := newLink(p, client, cancel)
		p.mu.Lock()
		p.links[l] = struct{}{}
		if p.closed {
			l.closeLocked()
		}
		p.mu.Unlock()
		p.running.Go(func() { l.run(ctx) })
	}
}

// whenOpen runs act while the network is whole, which no Cut can end meanwhile, and under mu. It waits for that, except
// when ctx has ended.
func (p *Proxy) whenOpen(ctx context.Context, act func()) {
	for {
		select {
		case <-p.gate.opened():
		case <-ctx.Done():
		}
		p.mu.Lock()
		if ctx.Err() != nil || p.gate.isOpen() {
			act()
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
	}
}

// fromClient notes what a client sent and returns when it is due: now.
func (p *Proxy) fromClient(data []byte) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.recording {
		p.sent = append(p.sent, data...)
	}
	return time.Time{}
}

// fromServer returns when the client is to get what has just come from the server.
func (p *Proxy) fromServer([]byte) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.delay)
}
