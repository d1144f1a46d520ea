package freeport

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"testing"
)

// takerMode makes the test binary another process that takes ports, prints them, and keeps them until its input ends.
const takerMode = "FREEPORT_TEST_TAKER"

// many is enough to meet the same port twice, was it not reserved: of two processes that choose 300 of 6000 at random, all
// but one in a million do.
const many = 300

func TestMain(m *testing.M) {
	if os.Getenv(takerMode) == "" {
		os.Exit(m.Run())
	}
	ports := make([]int, many)
	for i := range ports {
		var err error
		if ports[i], err = Take(); err != nil {
			panic(err)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(ports); err != nil {
		panic(err)
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
}

func TestNoPortIsTakenTwice(t *testing.T) {
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), takerMode+"=1")
	other.Stderr = os.Stderr
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		if err := other.Wait(); err != nil {
			t.Error(err)
		}
	}()
	var theirs []int
	if err := json.NewDecoder(out).Decode(&theirs); err != nil {
		t.Fatal(err)
	}
	whose := make(map[int]string)
	for _, port := range theirs {
		if whose[port] != "" {
			t.Errorf("the other process took port %d twice", port)
		}
		whose[port] = "the other process"
	}
	for range many {
		port, err := Take()
		if err != nil {
			t.Fatal(err)
		}
		if whose[port] != "" {
			t.Errorf("port %d is %s's already", port, whose[port])
		}
		whose[port] = "this process"
	}
}

func TestPortWithAListenerIsPassedOver(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		address, err := Address()
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(host, port(t, address)))
		if err != nil {
			if host == "::1" {
				continue // a machine without IPv6
			}
			t.Fatal(err)
		}
		number := listener.Addr().(*net.TCPAddr).Port
		forget()
		if free, err := reserve(number); free || err != nil {
			t.Errorf("somebody listens at %v: reserve = %v, %v, want false", listener.Addr(), free, err)
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		if free, err := reserve(number); !free || err != nil {
			t.Errorf("nobody listens at %v: reserve = %v, %v, want true", listener.Addr(), free, err)
		}
	}
}

func port(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// forget gives all reservations back.
func forget() {
	reservations.Lock()
	defer reservations.Unlock()
	for _, held := range reservations.held {
		_ = held.Close()
	}
	reservations.held = nil
}
