package faultproxy

import "sync"

// gate is what everything between the two ends passes.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while the gate is open
}

// newGate returns an open gate.
func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		g.open = make(chan struct{})
	default:
	}
}

func (g *gate) lift() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// opened is closed when the gate opens.
func (g *gate) opened() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

func (g *gate) isOpen() bool {
	select {
	case <-g.opened():
		return true
	default:
		return false
	}
}
