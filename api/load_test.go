package api_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

// narrow gives each connection buffers so small that a client which does not read is noticed soon.
type narrow struct{ net.Listener }

func (l narrow) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		err = conn.(*net.TCPConn).SetWriteBuffer(8 << 10)
	}
	return conn, err
}

// Of 220 readers 20 take nothing: they are disconnected, each with a line of the log, the others get every change in order, and
// what the process holds does not grow with the number of changes.
func TestLoadReadersOfEvents(t *testing.T) {
	const slow, fast, rounds, perRound = 20, 200, 40, 100
	r := newRig(t, "one")
	r.poll(t, "one", free())
	server := httptest.NewUnstartedServer(r.handler)
	server.Listener = narrow{server.Listener}
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(r.events.Close)

	for range slow {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprint(conn, "GET /api/v1/events HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	var reading sync.WaitGroup
	var received atomic.Int64
	transport := &http.Transport{MaxIdleConnsPerHost: fast}
	defer transport.CloseIdleConnections()
	ctx, leave := context.WithCancel(t.Context())
	defer reading.Wait()
	defer leave()
	for range fast {
		s := connect(t, server.URL, "", "")
		s.require(t, "reset", "lock one unheld")
		reading.Go(func() {
			context.AfterFunc(ctx, s.leave)
			for n := range rounds * perRound {
				m, ok := s.next(t)
				if !ok || m.data["holder"].(map[string]any)["pid"] != float64(n+1) {
					t.Errorf("event %d is %v (%v)", n, m.data, ok)
					return
				}
				received.Add(1)
			}
		})
	}
	var memory []uint64
	pid := uint32(0)
	for round := range rounds {
		for range perRound {
			pid++
			r.poll(t, "one", heldBy(pid, "plexsphere", time.Now(), false))
		}
		want := int64(round+1) * perRound * fast
		pgtest.Eventually(t, time.Minute, "all fast readers have all", func() (bool, string) {
			return received.Load() == want || t.Failed(), fmt.Sprintf("%d of %d", received.Load(), want)
		})
		if t.Failed() {
			return
		}
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		memory = append(memory, stats.HeapAlloc)
	}
	pgtest.Eventually(t, time.Minute, "the slow readers are disconnected", func() (bool, string) {
		lines := r.logs.With("WARN a reader of events does not keep up and was disconnected reader=127.0.0.1:")
		return len(lines) == slow, strings.Join(lines, "\n")
	})
	early, late := memory[rounds/2], memory[rounds-1] // from the middle on, as many events as are kept have passed
	fmt.Printf("events: %d changes to %d readers beside %d stuck ones; heap %d KiB in the middle, %d KiB at the end\n",
		rounds*perRound, fast, slow, early>>10, late>>10)
	if late > early+early/4 {
		t.Errorf("the heap grew from %d to %d bytes", early, late)
	}
}
