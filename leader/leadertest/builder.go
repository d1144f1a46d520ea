package leadertest

import "fmt"

// apply reads one event.
func (b *builder) apply(e *Event) {
	switch e.Kind {
	case LockGranted:
		b.lockGranted(e)
	case LockReleased:
		b.lockReleased(e.PID)
	case CounterRead:
		b.counter.read(e.Value)
	case FaultBegan, FaultEnded:
		b.fault(e)
	case TermBegan, TermEnded, UnitBegan, UnitEnded, IncrementTried, Incremented, IncrementRefused, ProcessStarted, ProcessEnded:
		if t := b.track(e); t != nil {
			t.apply(b, e)
		}
	default:
		b.flaw("an event has the unknown kind %q", e.Kind)
	}
}

func (b *builder) flaw(format string, args ...any) {
	b.flaws = append(b.flaws, flaw{at: b.now, text: fmt.Sprintf(format, args...)})
}

// track returns the replica that the event names.
func (b *builder) track(e *Event) *track {
	if e.Replica == "" {
		b.flaw("an event of kind %q names no replica", e.Kind)
		return nil
	}
	return b.named(e.Replica)
}

func (b *builder) named(name string) *track {
	t, ok := b.byName[name]
	if !ok {
		t = &track{replica: &replica{name: name}, openUnits: make(map[uint64]int), openFault: make(map[Fault]int)}
		b.byName[name] = t
	}
	return t
}

func (b *builder) lockGranted(e *Event) {
	if _, holds := b.holding[e.PID]; holds {
		return
	}
	b.holding[e.PID] = len(b.grants)
	b.grants = append(b.grants, grant{span: span{b.now, b.end}, pid: e.PID, replica: e.Replica})
}

// lockReleased does nothing about a backend that holds nothing: a watcher may be late to see that the server is down.
func (b *builder) lockReleased(pid uint32) {
	if i, holds := b.holding[pid]; holds {
		b.grants[i].to = b.now
		delete(b.holding, pid)
	}
}

func (b *builder) fault(e *Event) {
	switch {
	case !e.Fault.known():
		b.flaw("an event has the unknown fault %q", e.Fault)
	case e.Fault == ServerRestart:
		b.serverRestart(e.Kind == FaultBegan)
	default:
		if t := b.track(e); t != nil && e.Kind == FaultBegan {
			t.faultBegan(b, e)
		} else if t != nil {
			t.faultEnded(b, e.Fault)
		}
	}
}

func (b *builder) serverRestart(began bool) {
	if began == b.isDown {
		b.flaw("the server goes down or up twice")
		return
	}
	b.isDown = began
	if !began { // a replica may have got the lock by the time somebody notes that the server is up
		b.server[len(b.server)-1].to = b.now
		return
	}
	b.server = append(b.server, fault{span: span{b.now, forever}, kind: ServerRestart})
	for pid := range b.holding {
		b.lockReleased(pid)
	}
}

func (t *track) apply(b *builder, e *Event) {
	switch e.Kind {
	case TermBegan:
		t.run(b)
		t.termBegan(b, e.Fence)
	case TermEnded:
		t.endTerm(b)
	case UnitBegan:
		t.run(b)
		t.openUnits[e.Unit] = len(t.units)
		t.units = append(t.units, unit{span: span{b.now, b.end}, fence: e.Fence})
	case UnitEnded:
		if i, ok := t.openUnits[e.Unit]; ok {
			t.units[i].to = b.now
			delete(t.openUnits, e.Unit)
		}
	case IncrementTried:
		b.counter.tried(t.name, e.Value)
	case Incremented:
		b.counter.succeeded(t.name, e.Value, b.now)
	case IncrementRefused:
		b.counter.settled(t.name, e.Value)
	case ProcessStarted:
		t.end(b)
		for kind := range t.openFault {
			if !kind.outlivesStart() {
				t.faultEnded(b, kind)
			}
		}
		t.run(b)
	case ProcessEnded:
		t.end(b)
	}
}

// run notes that the process of the replica runs.
func (t *track) run(b *builder) {
	if !t.running {
		t.running = true
		t.runs = append(t.runs, span{b.now, b.end})
	}
}

// end closes what ends with the process.
func (t *track) end(b *builder) {
	t.endTerm(b)
	for unit, i := range t.openUnits {
		t.units[i].to = b.now
		delete(t.openUnits, unit)
	}
	if t.running {
		t.running = false
		t.runs[len(t.runs)-1].to = b.now
	}
}

func (t *track) termBegan(b *builder, fence uint64) {
	if t.openTerm {
		last := t.terms[len(t.terms)-1]
		if fence == 0 || last.fence == 0 || fence == last.fence {
			last.fence = max(last.fence, fence)
			return
		}
		t.endTerm(b)
	}
	t.openTerm = true
	t.terms = append(t.terms, &term{span: span{b.now, b.end}, replica: t.replica, fence: fence})
}

func (t *track) endTerm(b *builder) {
	if t.openTerm {
		t.openTerm = false
		t.terms[len(t.terms)-1].to = b.now
	}
}

func (t *track) faultBegan(b *builder, e *Event) {
	if _, open := t.openFault[e.Fault]; open {
		b.flaw("%s: the fault %q begins a second time", t.name, e.Fault)
		return
	}
	f := fault{span: span{b.now, b.now}, kind: e.Fault, pid: e.PID}
	if f.kind.lasts() {
		t.openFault[f.kind] = len(t.faults)
		f.to = forever
	}
	t.faults = append(t.faults, f)
	if f.kind == Kill {
		t.end(b)
	}
}

func (t *track) faultEnded(b *builder, kind Fault) {
	i, open := t.openFault[kind]
	switch {
	case open:
		t.faults[i].to = b.now
		delete(t.openFault, kind)
	case kind.outlivesStart():
		b.flaw("%s: the fault %q ends and had not begun", t.name, kind)
	}
}
