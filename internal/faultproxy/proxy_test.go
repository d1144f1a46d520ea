package faultproxy_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/internal/faultproxy"
	"github.com/plexsphere/leader-exporter/internal/pgserver/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	patience = 30 * time.Second       // for what must come
	silence  = 100 * time.Millisecond // for what must not: its absence is no fact to wait for
)

// upstream is the server behind a proxy, of which the test itself holds the connections.
type upstream struct {
	*net.TCPListener
	proxy *faultproxy.Proxy
}

func start(t *testing.T) *upstream {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	proxy, err := faultproxy.Start(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return &upstream{listener.(*net.TCPListener), proxy}
}

// dial connects a client to the proxy.
func (u *upstream) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", u.proxy.Addr(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

// accept returns the server's end of the next connection.
func (u *upstream) accept(t *testing.T) *net.TCPConn {
	t.Helper()
	_ = u.SetDeadline(time.Now().Add(patience))
	conn, err := u.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// connect returns both ends of a new connection through the proxy.
func (u *upstream) connect(t *testing.T) (client, server *net.TCPConn) {
	t.Helper()
	client = u.dial(t)
	return client, u.accept(t)
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_ = conn.SetWriteDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatalf("send %q: %v", text, err)
	}
}

func wantText(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	got := make([]byte, len(want))
	if n, err := io.ReadFull(conn, got); string(got[:n]) != want {
		t.Fatalf("got %q, %v; want %q", got[:n], err, want)
	}
}

func wantSilence(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(silence))
	var got [64]byte
	if n, err := conn.Read(got[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %q, %v; want to hear nothing", got[:n], err)
	}
}

// wantEnd expects nothing but the end of the connection: nil for one in good order, or an error of the socket.
func wantEnd(t *testing.T, conn net.Conn, want error) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if got, err := io.ReadAll(conn); len(got) != 0 || !errors.Is(err, want) {
		t.Fatalf("got %q, %v; want the end %v", got, err, want)
	}
}

func TestProxyForwardsBothWays(t *testing.T) {
	u := start(t)
	if got, want := net.JoinHostPort(u.proxy.Host(), strconv.Itoa(int(u.proxy.Port()))), u.proxy.Addr(); got != want {
		t.Errorf("Host and Port are %s, Addr is %s", got, want)
	}
	client, server := u.connect(t)
	send(t, client, "question")
	wantText(t, server, "question")
	send(t, server, "answer")
	wantText(t, client, "answer")
}

func TestProxyPassesAHalfCloseOn(t *testing.T) {
	u := start(t)
	client, server := u.connect(t)
	send(t, client, "last words")
	_ = client.CloseWrite()
	wantText(t, server, "last words")
	wantEnd(t, server, nil)
	send(t, server, "answer")
	_ = server.Close()
	wantText(t, client, "answer")
	wantEnd(t, client, nil)
}

func TestProxyPassesAResetOn(t *testing.T) {
	u := start(t)
	client, server := u.connect(t)
	_ = server.SetLinger(0)
	_ = server.Close()
	wantEnd(t, client, syscall.ECONNRESET)

	client, server = u.connect(t)
	_ = client.SetLinger(0)
	_ = client.Close()
	wantEnd(t, server, syscall.ECONNRESET)
}

func TestClientOfADeadTargetIsReset(t *testing.T) {
	u := start(t)
	_ = u.Close()
	client, err := net.DialTimeout("tcp", u.proxy.Addr(), patience)
	if err != nil { // the reset was faster
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Fatal(err)
		}
		return
	}
	defer client.Close()
	wantEnd(t, client, syscall.ECONNRESET)
}

func TestProxyHoldsBytesWhileCut(t *testing.T) {
	u := start(t)
	client, server := u.connect(t)
	send(t, client, "a")
	wantText(t, server, "a")
	u.proxy.Cut()
	send(t, client, "b")
	send(t, server, "c")
	wantSilence(t, server)
	wantSilence(t, client)
	u.proxy.Heal()
	wantText(t, server, "b")
	wantText(t, client, "c")
}

func TestProxyHoldsClosesWhileCut(t *testing.T) {
	u := start(t)
	client1, server1 := u.connect(t)
	client2, server2 := u.connect(t)
	client3, server3 := u.connect(t)
	u.proxy.Cut()
	send(t, client1, "bye")
	_ = client1.Close()
	send(t, server2, "bye")
	_ = server2.Close()
	_ = server3.SetLinger(0)
	_ = server3.Close()
	wantSilence(t, server1)
	wantSilence(t, client2)
	wantSilence(t, client3)
	u.proxy.Heal()
	wantText(t, server1, "bye")
	wantEnd(t, server1, nil)
	wantText(t, client2, "bye")
	wantEnd(t, client2, nil)
	wantEnd(t, client3, syscall.ECONNRESET)
}

func TestConnectionMadeWhileCutReachesTheTargetAfterHeal(t *testing.T) {
	u := start(t)
	u.proxy.Cut()
	client := u.dial(t)
	send(t, client, "hello")
	_ = u.SetDeadline(time.Now().Add(silence))
	if _, err := u.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the target hears of the connection while cut: %v", err)
	}
	wantSilence(t, client)
	u.proxy.Heal()
	server := u.accept(t)
	wantText(t, server, "hello")
	send(t, server, "welcome")
	wantText(t, client, "welcome")
}

// A write that waits for a reader who does not read is broken off by Cut, and has to go on at the very byte.
func TestStreamIsWholeAfterCuts(t *testing.T) {
	sent := make([]byte, 12<<20) // more than the kernel's buffers take, and less than they and the proxy's
	for i := 0; i < len(sent); i += 4 {
		binary.BigEndian.PutUint32(sent[i:], uint32(i))
	}
	u := start(t)
	client, server := u.connect(t)
	send(t, client, string(sent))
	_ = server.SetReadDeadline(time.Now().Add(patience))
	got := make([]byte, len(sent))
	for part := range slices.Chunk(got, len(got)/16) {
		u.proxy.Cut()
		u.proxy.Heal()
		if n, err := io.ReadFull(server, part); err != nil {
			t.Fatalf("after %d bytes more: %v", n, err)
		}
	}
	if !bytes.Equal(got, sent) {
		t.Error("what arrived is not what was sent")
	}
}

func TestCutDoesNotWaitForAReader(t *testing.T) {
	u := start(t)
	client, server := u.connect(t)
	block := make([]byte, 64<<10)
	for full := false; !full; {
		_ = client.SetWriteDeadline(time.Now().Add(silence))
		n, err := client.Write(block)
		full = err != nil && n == 0
	}
	cut := make(chan struct{})
	go func() {
		u.proxy.Cut()
		close(cut)
	}()
	select {
	case <-cut:
	case <-time.After(patience):
		t.Fatal("Cut waits for a server that does not read")
	}
	_ = server.Close() // or the cleanups would wait for it
}

func TestDelayHoldsOnlyWhatTheServerSends(t *testing.T) {
	u := start(t)
	client, server := u.connect(t)
	u.proxy.Delay(time.Hour)
	send(t, client, "question")
	wantText(t, server, "question")
	send(t, server, "answer")
	wantSilence(t, client)
	u.proxy.Delay(0)
	send(t, server, "more") // in order: it stays behind the answer
	wantSilence(t, client)

	client, server = u.connect(t)
	send(t, server, "at once")
	wantText(t, client, "at once")
}

func TestDelayedChunksOverlap(t *testing.T) {
	const delay, chunks = 200 * time.Millisecond, 20
	u := start(t)
	client, server := u.connect(t)
	u.proxy.Delay(delay)
	begin := time.Now()
	sent := bytes.Repeat([]byte("0123456789abcdef"), chunks*32<<10/16) // a read of the proxy returns 32 KB at most
	go func() { _, _ = server.Write(sent) }()
	wantText(t, client, string(sent))
	if took := time.Since(begin); took < delay || took > chunks/2*delay {
		t.Errorf("%d chunks came after %v; want one delay of %v for all", chunks, took, delay)
	}
}

func TestDelayHoldsTheCloseBackToo(t *testing.T) {
	u := start(t)
	client, server := u.connect(t)
	u.proxy.Delay(time.Hour)
	_ = server.Close()
	wantSilence(t, client)
}

func TestSeverClosesBothEndsAtOnce(t *testing.T) {
	u := start(t)
	client, server := u.connect(t)
	u.proxy.Sever()
	wantEnd(t, client, syscall.ECONNRESET)
	wantEnd(t, server, nil)

	client, server = u.connect(t)
	send(t, client, "works")
	wantText(t, server, "works")
	u.proxy.Cut()
	u.proxy.Sever()
	wantEnd(t, client, syscall.ECONNRESET)
	wantEnd(t, server, nil)
}

func TestIsolateEndsTheServersSideAlone(t *testing.T) {
	u := start(t)
	client, server := u.connect(t)
	u.proxy.Isolate()
	wantEnd(t, server, nil)
	wantSilence(t, client)
	send(t, client, "is anybody there")
	late := u.dial(t)
	send(t, late, "hello")
	wantSilence(t, late)
	wantSilence(t, client)
	u.proxy.Heal()
	wantEnd(t, client, nil)
	wantText(t, u.accept(t), "hello")
}

func TestSentIsWhatClientsSentSinceRecord(t *testing.T) {
	u := start(t)
	client, server := u.connect(t)
	send(t, client, "before")
	wantText(t, server, "before")
	u.proxy.Record()
	send(t, client, "one ")
	wantText(t, server, "one ")
	u.proxy.Cut()
	send(t, server, "from the server")
	send(t, client, "two")
	pgtest.Eventually(t, patience, "what is held was sent too", func() (bool, string) {
		return string(u.proxy.Sent()) == "one two", string(u.proxy.Sent())
	})
	clear(u.proxy.Sent())
	if got := string(u.proxy.Sent()); got != "one two" {
		t.Errorf("Sent after its copy was changed = %q", got)
	}
}

func TestCloseEndsWhatever(t *testing.T) {
	u := start(t)
	client, server := u.connect(t)
	u.proxy.Delay(time.Hour)
	send(t, server, "held for an hour")
	u.proxy.Cut()
	send(t, client, "held by the cut")
	waiting := u.dial(t)
	for range 50 { // enough for some to be still at it if Close did not wait
		u.dial(t)
	}
	u.proxy.Close()
	stacks := make([]byte, 1<<20)
	if stacks = stacks[:runtime.Stack(stacks, true)]; bytes.Contains(stacks, []byte("internal/faultproxy.(*")) {
		t.Errorf("goroutines run after Close:\n%s", stacks)
	}
	u.proxy.Close()
	for _, conn := range []net.Conn{client, server, waiting} {
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("an end is open after Close: %v", err)
		}
	}
	if _, err := net.Dial("tcp", u.proxy.Addr()); err == nil {
		t.Error("a closed proxy accepts connections")
	}
}

func TestMethodsMayRunTogether(t *testing.T) {
	u := start(t)
	go func() {
		for {
			conn, err := u.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	u.proxy.Record()
	var all sync.WaitGroup
	for _, fault := range []func(){
		u.proxy.Cut, u.proxy.Heal, u.proxy.Isolate, u.proxy.Sever, u.proxy.Heal,
		func() { u.proxy.Delay(time.Millisecond) }, func() { _ = u.proxy.Sent() },
		func() {
			conn, err := net.DialTimeout("tcp", u.proxy.Addr(), patience)
			if err != nil {
				return // Sever was faster
			}
			_ = conn.SetDeadline(time.Now().Add(5 * time.Millisecond))
			_, _ = io.WriteString(conn, "x")
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		},
	} {
		all.Go(func() {
			for range 100 {
				fault()
			}
		})
	}
	all.Wait()
	u.proxy.Close()
}
