package leader

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// R13: a term that ended between the look and the join hands out nothing; a cancelled context leaves its term.
func TestJoinOfAnEndedTermIsRefused(t *testing.T) {
	e := &Elector{interval: time.Hour, gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "g"})}
	e.startTerm(t.Context(), 1, time.Now())
	open := e.current.Load()
	_, leave, ok := e.join(t.Context(), open)
	if !ok || len(open.members) != 1 {
		t.Fatalf("join of an open term: %v, %d members", ok, len(open.members))
	}
	leave()
	if len(open.members) != 0 {
		t.Errorf("%d members after the only one left", len(open.members))
	}
	e.endTerm()
	if _, _, ok := e.join(context.Background(), open); ok {
		t.Error("join of an ended term was granted")
	}
}

// spyGauge calls at whenever it is set.
type spyGauge struct {
	prometheus.Gauge
	at func()
}

func (s spyGauge) Set(float64) { s.at() }

// I2: the gauge is 0 before the term's contexts end.
func TestGaugeTurnsBeforeTheContextsEnd(t *testing.T) {
	e := &Elector{interval: time.Hour, gauge: spyGauge{at: func() {}}}
	e.startTerm(t.Context(), 1, time.Now())
	ctx, leave, _ := e.join(t.Context(), e.current.Load())
	defer leave()
	e.gauge = spyGauge{at: func() {
		if ctx.Err() != nil || e.IsLeader() {
			t.Errorf("at gauge 0: context ended %v, IsLeader %v", ctx.Err() != nil, e.IsLeader())
		}
	}}
	e.endTerm()
}

// R8, I6: the end of an overdue check ends the term of that check, not the one that has begun since.
func TestLateEndOfATermSparesItsSuccessor(t *testing.T) {
	e := &Elector{interval: time.Hour, gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "g"})}
	e.startTerm(t.Context(), 1, time.Now())
	old := e.current.Load()
	e.endTerm()
	e.startTerm(t.Context(), 2, time.Now())
	e.end(old)
	if fence, leads := e.Fence(); !leads || fence != 2 {
		t.Errorf("Fence = %d, %v after the late end of the first term, want the second", fence, leads)
	}
	e.end(e.current.Load())
	if e.IsLeader() {
		t.Error("the term goes on after its own end")
	}
}
