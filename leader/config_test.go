package leader_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/leader/leadertest"
)

// R19: a Config without a Pool is refused.
func TestNewNeedsAPool(t *testing.T) {
	if e, err := leader.New(leader.Config{}); !errors.Is(err, leader.ErrNilPool) || e != nil {
		t.Errorf("New = %v, %v; want ErrNilPool", e, err)
	}
}

// R19: zero and negative intervals mean the default.
func TestIntervalDefaultsToFiveSeconds(t *testing.T) {
	for _, configured := range []time.Duration{0, -time.Second} {
		inBubble(t, func(t *testing.T, server *leadertest.Server) {
			newReplica(t, server.Client("a").Pool(t), configured).run(t)
			time.Sleep(11 * time.Second)
			if got := count(server, "SELECT 1"); got != 2 {
				t.Errorf("CheckInterval %v: %d checks in 11 s, want those of the default at 5 s and 10 s", configured, got)
			}
		})
	}
}

// R9: the bound on an orphan is four intervals, within the range of idle_session_timeout, and set with the lock.
func TestOrphanBoundIsSetInTheLockStatement(t *testing.T) {
	for configured, want := range map[time.Duration]string{
		time.Second:                  "4000",
		1500 * time.Microsecond:      "6",
		time.Nanosecond:              "1",
		1000 * time.Hour:             "2147483647",
		1<<63 - 1:                    "2147483647",
		536870911 * time.Millisecond: "2147483644",
		536870912 * time.Millisecond: "2147483647",
	} {
		inBubble(t, func(t *testing.T, server *leadertest.Server) {
			r := newReplica(t, server.Client("a").Pool(t), configured).run(t)
			synctest.Wait()
			r.stop()
			if got := count(server, "set_config('idle_session_timeout', '"+want+"', false)"); got == 0 {
				t.Errorf("CheckInterval %v: no lock statement sets %s ms:\n%v", configured, want, server.Statements())
			}
		})
	}
}

// R16, L14, L35: the gauge is there with 0 from New on, follows the term, and two replicas sum to 1.
func TestGaugeFollowsTheTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		a := newReplica(t, server.Client("a").Pool(t), interval)
		b := newReplica(t, server.Client("b").Pool(t), interval)
		a.requireStandby(t)
		requireLint(t, a)
		a.run(t)
		synctest.Wait()
		b.run(t)
		synctest.Wait()
		if sum := a.gauge(t) + b.gauge(t); sum != 1 {
			t.Errorf("the gauges sum to %v, want 1", sum)
		}
		a.stop()
		<-a.returned
		a.requireStandby(t)
	})
}

// R16, L34: electors share a gauge that is there; another kind of metric under its name is an error, not a panic.
func TestGaugeIsSharedOrRefused(t *testing.T) {
	const name, help = "plexsphere_background_leader", "1 while this replica leads the background work of its deployment, else 0."
	inBubble(t, func(t *testing.T, server *leadertest.Server) {
		pool := server.Client("a").Pool(t)
		registry := prometheus.NewRegistry()
		for range 2 {
			if _, err := leader.New(leader.Config{Pool: pool, Registerer: registry}); err != nil {
				t.Errorf("New on a registry that has the gauge: %v", err)
			}
		}
		if families, err := registry.Gather(); err != nil || len(families) != 1 || len(families[0].GetMetric()) != 1 {
			t.Errorf("gathered %v, %v; want one series", families, err)
		}
		for kind, taken := range map[string]prometheus.Collector{
			"counter":            prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}),
			"gauge func":         prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return 1 }),
			"counter, own help":  prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: "Something else."}),
			"gauge, with labels": prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"pod"}),
		} {
			registry := prometheus.NewRegistry()
			registry.MustRegister(taken)
			if _, err := leader.New(leader.Config{Pool: pool, Registerer: registry}); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("New on a registry with a %s: %v; want an error that names the metric", kind, err)
			}
		}
	})
}
