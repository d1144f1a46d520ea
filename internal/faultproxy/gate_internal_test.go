package faultproxy

import (
	"net"
	"runtime"
	"testing"
	"time"
)

// A goroutine may wake up for an open gate and find it shut when its turn to run comes. No test from outside can make that
// happen at will.

func TestWriteLooksAtTheGateAgain(t *testing.T) {
	d := newDirection(newGate())
	d.gate.shut()
	dst, other := net.Pipe()
	defer dst.Close()
	defer other.Close()
	_ = dst.SetWriteDeadline(time.Unix(1, 0)) // a write that is tried fails
	if n, err := d.writeIfOpen(dst, []byte("late")); n != 0 || err != nil {
		t.Errorf("write at a shut gate = %d, %v; want none", n, err)
	}
}

func TestWhenOpenLooksAtTheGateAgain(t *testing.T) {
	for range 1000 {
		p := &Proxy{gate: newGate()}
		p.mu.Lock()
		done := make(chan struct{})
		acted := false // guarded by p.mu
		go func() {
			p.whenOpen(t.Context(), func() { acted = true })
			close(done)
		}()
		runtime.Gosched() // it mostly comes as far as p.mu
		p.gate.shut()
		p.mu.Unlock()
		runtime.Gosched()
		p.mu.Lock()
		if acted {
			t.Fatal("it acted while the gate was shut")
		}
		p.mu.Unlock()
		p.gate.lift()
		<-done
		if !acted {
			t.Fatal("it did not act")
		}
	}
}
