package pgserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Pause stops every process of the server as SIGSTOP does: sockets stay open, the kernel goes on accepting connections,
// nothing is answered. It needs Linux's /proc.
func (s *Server) Pause() error { return s.signalAll(syscall.SIGSTOP) }

// Resume undoes Pause.
func (s *Server) Resume() error { return s.signalAll(syscall.SIGCONT) }

// resumeAll lets a paused server hear that it is to stop.
func (s *Server) resumeAll() {
	if s.process == nil {
		return
	}
	select {
	case <-s.process.Done():
	default:
		_ = s.Resume()
	}
}

// signalAll signals the postmaster and then its children, which lead process groups of their own.
func (s *Server) signalAll(sig syscall.Signal) error {
	if err := s.process.Signal(sig); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	for _, path := range stats {
		pid, parent, ok := readStat(path)
		if ok && parent == s.process.PID() {
			_ = syscall.Kill(pid, sig) // it may just have ended
		}
	}
	return nil
}

// readStat returns a process id and its parent's from a line such as "42 (postgres: a b) S 7 ...".
func readStat(path string) (pid, parent int, ok bool) {
	stat, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, false
	}
	head, tail, found := strings.Cut(string(stat), " (")
	fields := strings.Fields(tail[strings.LastIndex(tail, ")")+1:])
	if !found || len(fields) < 2 {
		return 0, 0, false
	}
	pid, errPID := strconv.Atoi(head)
	parent, errParent := strconv.Atoi(fields[1])
	return pid, parent, errPID == nil && errParent == nil
}
