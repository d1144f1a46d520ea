// Package syncbuf is a buffer that a test may read while a program still writes to it.
package syncbuf

import (
	"bytes"
	"sync"
)

// Buffer collects what is written to it. The zero Buffer is empty; every method is safe from any goroutine.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

// Write implements io.Writer. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns all that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
