package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// simulation is an election on the scripted server, on the clock of its bubble.
type simulation struct {
	t        *testing.T
	server   *leadertest.Server
	history  *leadertest.History
	replicas []*simulated

	mu      sync.Mutex
	counter int64 // the row that the work increments
}

// simulated is one replica.
type simulated struct {
	name    string
	client  *leadertest.Client
	elector *leader.Elector
	stop    context.CancelFunc
	stopped sync.WaitGroup // for Run and the work
}

func newSimulation(t *testing.T) *simulation {
	t.Helper()
	s := &simulation{t: t, server: leadertest.NewServer(t), history: &leadertest.History{}}
	s.server.SetRecording(false)
	s.server.Observe(func(change leadertest.LockChange) {
		if change.Granted {
			s.history.LockGranted(change.PID, change.Client)
		} else {
			s.history.LockReleased(change.PID)
		}
	})
	for i := range chaosReplicas {
		r := &simulated{name: fmt.Sprint("replica", i)}
		r.client = s.server.Client(r.name)
		pool := r.client.Pool(t, func(c *pgxpool.Config) { c.HealthCheckPeriod = 24 * time.Hour })
		elector, err := leader.New(leader.Config{
			Pool:          pool,
			CheckInterval: interval,
			Logger:        slog.New(slog.DiscardHandler),
			Registerer:    s.history.Registerer(r.name),
			WakeOnRelease: i%2 == 0, // a rolling change of the configuration
		})
		if err != nil {
			t.Fatal(err)
		}
		r.elector = elector
		s.replicas = append(s.replicas, r)
		s.start(r)
		time.Sleep(interval / chaosReplicas)
	}
	return s
}

// start lets the replica take part and work.
func (s *simulation) start(r *simulated) {
	ctx, cancel := context.WithCancel(s.t.Context())
	r.stop = cancel
	s.history.Started(r.name)
	r.stopped.Go(func() { _ = r.elector.Run(ctx) })
	r.stopped.Go(func() { s.work(ctx, r) })
}

// work increments the counter every few seconds, on the leader.
func (s *simulation) work(ctx context.Context, r *simulated) {
	ticker := time.NewTicker(interval*3/4 + time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		_, _ = s.history.Do(ctx, r.elector, r.name, func(ctx context.Context) error {
			s.mu.Lock()
			value := s.counter + 1
			s.mu.Unlock()
			select { // a round trip to the database
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.counter != value-1 {
				s.history.IncrementRefused(r.name, value)
				return errors.New("another was faster")
			}
			s.counter = value
			s.history.Incremented(r.name, value)
			return nil
		})
	}
}

func (s *simulation) leader() int {
	client, _, _ := s.server.Holder(key())
	return slices.IndexFunc(s.replicas, func(r *simulated) bool { return r.name == client })
}

func (s *simulation) sleep(d time.Duration) { time.Sleep(d) }

func (s *simulation) strike(b blow) (heal func(), done bool) {
	r := s.replicas[b.replica]
	switch b.fault {
	case leadertest.CleanStop:
		s.history.FaultBegan(r.name, b.fault)
		r.stop()
		return func() {
			r.stopped.Wait()
			s.start(r)
		}, true
	case leadertest.StepDown:
		s.history.FaultBegan(r.name, b.fault)
		holder, _, _ := s.server.Holder(key())
		err := r.elector.StepDown(s.t.Context(), b.lasts)
		if err != nil && holder == r.name { // else the server has ended its session, and it learns so from the unlock
			s.t.Error(err)
		}
		return func() { s.history.FaultEnded(r.name, b.fault) }, true
	case leadertest.Partition:
		s.history.FaultBegan(r.name, b.fault)
		r.client.Cut()
		return s.heal(r, b.fault), true
	case leadertest.Isolated:
		s.history.FaultBegan(r.name, b.fault)
		r.client.Cut()
		s.server.TerminateClient(r.name)
		return s.heal(r, b.fault), true
	case leadertest.Terminated:
		client, pid, held := s.server.Holder(key())
		if held {
			s.history.Record(leadertest.Event{Kind: leadertest.FaultBegan, Fault: b.fault, Replica: client, PID: pid})
			s.server.Terminate(pid)
		}
		return nil, held
	case leadertest.ServerRestart:
		s.history.ServerDown()
		s.server.Stop()
		return func() {
			s.server.Start()
			s.history.ServerUp()
		}, true
	default:
		return nil, false
	}
}

func (s *simulation) heal(r *simulated, fault leadertest.Fault) func() {
	return func() {
		r.client.Heal()
		s.history.FaultEnded(r.name, fault)
	}
}

// R8, R10, R20, R21, R22, R23, R24: whatever hits five replicas in thousands of hours, the election keeps its promises, to
// the millisecond.
func TestChaosSimulated(t *testing.T) {
	const hoursEach = 20
	faults := []leadertest.Fault{
		leadertest.CleanStop, leadertest.StepDown, leadertest.Partition, leadertest.Isolated, leadertest.Terminated, leadertest.ServerRestart,
	}
	hours := setting(t, "LEADER_CHAOS_HOURS", 200)
	seed := seedOf(t, "make chaos-simulated")
	var mu sync.Mutex
	var total leadertest.Report
	t.Run("hours", func(t *testing.T) {
		for begun := uint64(0); begun < hours; begun += hoursEach {
			t.Run(fmt.Sprint(begun), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newSimulation(t)
					c := newCampaign(seed+begun, interval, s, faults...)
					if begun%(2*hoursEach) != 0 { // much happens in one moment
						c.grid = time.Second
					}
					c.run(t.Context(), hoursEach*time.Hour)
					s.history.CounterRead(s.counter)
					report, err := s.history.Check(leadertest.Config{CheckInterval: interval})
					if err != nil {
						t.Errorf("seed %d, hours from %d: %v", seed, begun, err)
					}
					for _, r := range s.replicas {
						r.stop()
						r.stopped.Wait()
					}
					mu.Lock()
					defer mu.Unlock()
					total = merge(total, report)
				})
			})
		}
	})
	fmt.Printf("chaos: %d simulated hours\n%v", hours, total)
	requireEventful(t, total, faults)
}
