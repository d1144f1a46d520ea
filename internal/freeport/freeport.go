// Package freeport hands out TCP ports of loopback for processes that are told where to listen, and start later, or again.
//
// A port that the kernel chose (port 0) and got back is the next one's too: of 54 that were taken so at once, two were the
// same in one case of five. Until its owner listens, and while it is restarted, it may also become the near end of anybody's
// connection. So these ports come from below the ranges from which kernels choose by default (ip_local_port_range of ip-sysctl: 32768
// on Linux, 16000 under gVisor, 49152 on macOS), and a port is one process's until that ends: it holds the UDP port of the
// same number, which nobody else here wants, and which no crash leaves behind.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
)

const first, last = 10000, 15999

// reservations belong to the process, as ports do; a connection that nobody refers to would be closed.
//
//nolint:gochecknoglobals // see above
var reservations struct {
	sync.Mutex
	held []net.PacketConn
}

// Take returns a TCP port on which nobody listens, at 127.0.0.1 and at ::1, and which no other call of Take returns, in any
// process of this machine, until this process ends. It fails when all 6000 are in use, and when the process has no file
// descriptor left: each port keeps one. It is safe from any goroutine.
func Take() (int, error) {
	const ports = last - first + 1
	begin := rand.IntN(ports)
	for i := range ports {
		port := first + (begin+i)%ports
		if free, err := reserve(port); err != nil {
			return 0, fmt.Errorf("freeport: %w", err)
		} else if free {
			return port, nil
		}
	}
	return 0, fmt.Errorf("freeport: all ports from %d to %d are in use", first, last)
}

// Address returns 127.0.0.1 and a port that Take took, for a flag or the host of a URL.
func Address() (string, error) {
	port, err := Take()
	if err != nil {
		return "", err
	}
	return at("127.0.0.1", port), nil
}

// reserve makes the port this process's, unless it is another's, or somebody listens there.
func reserve(port int) (free bool, err error) {
	reservation, err := net.ListenPacket("udp4", at("127.0.0.1", port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		listener, err := net.Listen("tcp", at(host, port))
		if err == nil {
			err = listener.Close()
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			return false, reservation.Close()
		}
		// A machine without IPv6 has no such address, and nobody can listen there.
		if err != nil && !errors.Is(err, syscall.EADDRNOTAVAIL) && !errors.Is(err, syscall.EAFNOSUPPORT) {
			return false, errors.Join(err, reservation.Close())
		}
	}
	reservations.Lock()
	defer reservations.Unlock()
	reservations.held = append(reservations.held, reservation)
	return true, nil
}

func at(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
