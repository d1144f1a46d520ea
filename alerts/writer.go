package alerts

import (
	"fmt"
	"strings"
	"time"
)

// lookBack is for how long a deployment that has vanished without a trace is missed. It is long enough for a person to come and
// look, and short enough that one which was taken down on purpose is forgotten the same day.
const lookBack = 6 * time.Hour

// writer writes rules for one set of parameters.
type writer struct {
	Params
	group string // the labels of GroupBy, as a list in PromQL
	where string // the words for the deployment in annotations
}

func newWriter(p Params) writer {
	where := make([]string, len(p.GroupBy))
	for i, label := range p.GroupBy {
		where[i] = label + " {{ $labels." + label + " }}"
	}
	return writer{Params: p, group: strings.Join(p.GroupBy, ", "), where: strings.Join(where, ", ")}
}

// rules returns all alerts: what the replicas say against what the lock says, the exporter, the work.
func (w writer) rules() []rule {
	rules := []rule{
		w.missing(), w.multiple(), w.unclaimed(), w.phantom(), w.flapping(), w.metricsAbsent(),
		w.heartbeatStale(), w.foreignHolder(), w.exporterDown(), w.targetDown(), w.onStandby(),
		w.loopFailing(), w.loopStalled(), w.workerExhausted(),
	}
	for i := range rules {
		rules[i].runbook = w.RunbookBaseURL + "/" + rules[i].name + ".md"
	}
	return rules
}

// by returns the labels of the group, with more after them.
func (w writer) by(more ...string) string {
	return strings.Join(append([]string{w.group}, more...), ", ")
}

// metric returns a selector with these matchers and those of the parameters.
func (w writer) metric(name string, matchers ...string) string {
	if w.Selector != "" {
		matchers = append(matchers, w.Selector)
	}
	if len(matchers) == 0 {
		return name
	}
	return name + "{" + strings.Join(matchers, ",") + "}"
}

// lock returns a selector of the leader's lock, whatever else the exporter watches.
func (w writer) lock(name string) string {
	return w.metric(name, fmt.Sprintf("lock=%q", w.Lock))
}

// claims is the number of replicas that claim to lead. A replica that two Prometheus servers scraped, into one store, counts once; of
// one that is restarted at its old address the newest sample counts.
func (w writer) claims() string {
	return fmt.Sprintf("sum by (%s) (max by (%s) (%s))", w.group, w.by("instance"), w.metric("plexsphere_background_leader"))
}

// held is 1 if any session holds the leader's lock. It is absent while the exporter cannot tell.
func (w writer) held() string {
	return fmt.Sprintf("max by (%s) (%s)", w.group, w.lock("leader_lock_held"))
}

// wholeSeconds rounds up: a `for` is never shorter than its formula.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}
