package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

const (
	chunkSize = 32 << 10
	// held is how many chunks a direction keeps before it stops reading, and the sender's own buffers fill up.
	held = 256
)

// direction is one half of a link.
type direction struct {
	gate  *gate
	queue chan chunk
	busy  sync.Mutex // held from a look at the gate to the end of a write
}

// chunk is what one read returned.
type chunk struct {
	data []byte
	due  time.Time // not to be written before
	end  error     // how the source ended, which is all that the last chunk says
}

func newDirection(g *gate) direction { return direction{gate: g, queue: make(chan chunk, held)} }

// fill reads src to its end. It asks arrived, with what it read, when that is due.
func (d *direction) fill(ctx context.Context, src net.Conn, arrived func(data []byte) time.Time) {
	buffer := make([]byte, chunkSize)
	for {
		n, err := src.Read(buffer)
		if n > 0 && !d.put(ctx, chunk{data: bytes.Clone(buffer[:n]), due: arrived(buffer[:n])}) {
			return
		}
		if err != nil {
			d.put(ctx, chunk{due: arrived(nil), end: err})
			return
		}
	}
}

// put queues a chunk. It reports false when ctx ended before there was room.
func (d *direction) put(ctx context.Context, c chunk) bool {
	select {
	case d.queue <- c:
		return true
	case <-ctx.Done():
		return false
	}
}

// drain writes the chunks to dst and returns how their source ended: nil when ctx or dst ended first. The end of dst is
// for the other direction to pass on, which reads from there.
func (d *direction) drain(ctx context.Context, dst net.Conn) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-d.queue:
			if !sleepUntil(ctx, c.due) {
				return nil
			}
			if c.end != nil {
				return c.end
			}
			if !d.write(ctx, dst, c.data) {
				return nil
			}
		}
	}
}

// write writes data to dst whenever the gate is open. It reports false when ctx or dst ended before all was written.
func (d *direction) write(ctx context.Context, dst net.Conn, data []byte) bool {
	for len(data) > 0 {
		select {
		case <-d.gate.opened():
		case <-ctx.Done():
			return false
		}
		n, err := d.writeIfOpen(dst, data)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		data = data[n:] // an interrupted write goes on where it was
	}
	return true
}

func (d *direction) writeIfOpen(dst net.Conn, data []byte) (int, error) {
	d.busy.Lock()
	defer d.busy.Unlock()
	if !d.gate.isOpen() {
		return 0, nil
	}
	return dst.Write(data)
}

// interrupt returns when no write to dst runs that began before the gate was shut. One that waits for its reader is broken
// off.
func (d *direction) interrupt(dst net.Conn) {
	_ = dst.SetWriteDeadline(time.Unix(1, 0))
	d.busy.Lock()
	defer d.busy.Unlock()
	_ = dst.SetWriteDeadline(time.Time{})
}

// sleepUntil reports false when ctx ended first.
func sleepUntil(ctx context.Context, due time.Time) bool {
	wait := time.Until(due)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
