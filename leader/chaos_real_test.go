package leader_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

func (s *reality) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.t.Context().Done():
	}
}

func (s *reality) strike(b blow) (heal func(), done bool) {
	r := s.replicas[b.replica]
	name := r.order.Name
	began := func() { s.history.FaultBegan(name, b.fault) }
	ended := func() { s.history.FaultEnded(name, b.fault) }
	switch b.fault {
	case leadertest.CleanStop:
		began()
		r.signal(syscall.SIGTERM)
		return func() {
			r.gone()
			r.start()
		}, true
	case leadertest.StepDown:
		began()
		r.signal(syscall.SIGUSR1)
		return func() {
			s.sleep(r.order.Cooldown)
			ended()
		}, true
	case leadertest.Partition:
		return s.partition(r, b), true
	case leadertest.Isolated:
		began()
		r.proxy.Isolate()
		return func() {
			r.proxy.Heal()
			ended()
		}, true
	case leadertest.Pause:
		began()
		r.signal(syscall.SIGSTOP)
		return func() {
			ended()
			r.signal(syscall.SIGCONT)
		}, true
	case leadertest.Kill:
		began()
		r.kill()
		return r.start, true
	case leadertest.Terminated:
		return nil, s.terminate()
	case leadertest.ServerRestart:
		return s.stopServer(b), true
	default:
		return nil, false
	}
}

// partition cuts the network of the replica, or takes the power from its host.
func (s *reality) partition(r *recorded, b blow) (heal func()) {
	s.history.FaultBegan(r.order.Name, b.fault)
	r.proxy.Cut()
	powerLoss := b.variant == 0
	if powerLoss {
		r.kill()
	}
	return func() {
		r.proxy.Heal()
		s.history.FaultEnded(r.order.Name, b.fault)
		if powerLoss {
			r.start()
		}
	}
}

// terminate ends the backend that holds the lock, if there is one.
func (s *reality) terminate() bool {
	conn, err := s.admin.Acquire(s.t.Context())
	if err != nil {
		return false
	}
	defer conn.Release()
	holder, held := s.watcher.holder()
	if !held {
		return false
	}
	s.history.Record(leadertest.Event{
		Kind: leadertest.FaultBegan, Fault: leadertest.Terminated, Replica: holder.Name, PID: holder.PID,
	})
	if _, err := conn.Exec(s.t.Context(), "SELECT pg_terminate_backend($1)", int32(holder.PID)); err != nil {
		s.t.Error(err)
	}
	return true
}

// stopServer shuts the server down, fast or at once.
func (s *reality) stopServer(b blow) (heal func()) {
	s.history.ServerDown()
	mode := pgserver.Fast
	if b.variant == 0 {
		mode = pgserver.Immediate
	}
	if err := s.server.Stop(mode); err != nil {
		s.t.Error(err)
	}
	return func() {
		if err := s.server.Start(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		s.history.ServerUp()
	}
}

// R8, R9, R10, R20, R21, R22, R23, R24, L11: five replicas as processes, each behind a network of its own, hit at random for as long as asked:
// the election keeps its promises.
func TestChaosReal(t *testing.T) {
	seconds := setting(t, "LEADER_CHAOS_SECONDS", 20)
	seed := seedOf(t, fmt.Sprintf("make chaos SECONDS=%d", seconds))
	s := newReality(t)
	s.startMeasured(chaosReplicas, func(i int) bool { return i%2 == 1 }) // a rolling change of the configuration
	c := newCampaign(seed, measured, s, leadertest.Faults()...)
	c.log = t.Logf
	c.run(t.Context(), time.Duration(seconds)*time.Second)
	report := s.check()
	fmt.Printf("chaos: %d s on real parts\n%v", seconds, report)
	const untilAll = 60 // seconds after which each fault will have been drawn
	if seconds < untilAll {
		requireEventful(t, report, nil)
		return
	}
	requireEventful(t, report, leadertest.Faults())
}
