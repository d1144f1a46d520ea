package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"
)

const (
	// lookEvery is the time between two looks at all parts.
	lookEvery = 100 * time.Millisecond
	// firstLeader is how long the first leader and Prometheus's first scrapes may take.
	firstLeader = time.Minute
)

// runUp starts the stack, watches it until ctx ends or the duration is over, and leaves nothing behind.
func runUp(ctx context.Context, opts upOptions, stdout io.Writer) (err error) {
	say := func(format string, args ...any) {
		fmt.Fprintf(stdout, "%s  %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
	}
	s, err := startStack(ctx, opts, say)
	defer func() {
		say("stopping")
		err = errors.Join(err, s.close())
		say("stopped, nothing is left behind")
	}()
	if err != nil {
		return ignoreInterrupt(ctx, err)
	}
	w := &watch{stack: s, say: say, judge: judge{overlap: 2*opts.checkInterval + lookEvery}}
	if err := w.awaitFirstLeader(ctx); err != nil {
		return ignoreInterrupt(ctx, err)
	}
	if w.books, err = openBooks(ctx, s.dsn, opts.checkInterval, opts.loopInterval); err != nil {
		return err
	}
	defer w.books.close()
	w.printURLs()
	return w.follow(ctx)
}

// ignoreInterrupt drops an error that is only the end of ctx: the user asked for it.
func ignoreInterrupt(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// watch is the look at a running stack. It belongs to the goroutine of runUp.
type watch struct {
	*stack
	say   func(format string, args ...any)
	judge judge
	books *books // from the first leader on
	kills int
	pages int // how many were printed
}

// awaitFirstLeader waits until one replica leads, the exporter agrees, and Prometheus has scraped all of them.
func (w *watch) awaitFirstLeader(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, firstLeader, fmt.Errorf("no leader, or no scrapes of all, within %v", firstLeader))
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		seen := w.look(ctx)
		if err := w.tell(seen); err != nil {
			return err
		}
		if seen.agrees() && w.monitor.scrapes(ctx, w.deployment) {
			return nil
		}
		if err := w.fault(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// printURLs tells where to look.
func (w *watch) printURLs() {
	w.say("exporter    http://%s/metrics", w.exporterAddr)
	w.say("Prometheus  http://%s/", w.monitor.promethAddr)
	w.say("Alertmanager  http://%s/", w.monitor.alertmanagAddr)
	for _, r := range w.replicas {
		w.say("%s  http://%s/metrics and /readyz", r.name, r.address)
	}
	w.say("PostgreSQL  %s", w.dsn)
	w.say("Ctrl-C stops everything")
}

// follow looks until the end and kills leaders as asked. It returns an error when the promise is broken.
func (w *watch) follow(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	begin, lastKill := time.Now(), time.Now()
	for {
		select {
		case <-ctx.Done():
			w.say("%d changes of the leader seen, %d replicas killed", w.judge.changes, w.kills)
			return nil
		case <-ticker.C:
		}
		seen := w.look(ctx)
		if ctx.Err() != nil {
			continue // what a cancelled look saw means nothing
		}
		if err := errors.Join(w.tell(seen), w.fault(), w.books.fault(), w.revive()); err != nil {
			return err
		}
		if w.opts.duration > 0 && time.Since(begin) >= w.opts.duration {
			return w.conclude(ctx)
		}
		if w.opts.killEvery > 0 && time.Since(lastKill) >= w.opts.killEvery && seen.agrees() {
			lastKill = time.Now()
			if err := w.kill(seen.holder); err != nil {
				return err
			}
		}
	}
}

// conclude requires exactly one leader, for which it waits as long as a handover may take.
func (w *watch) conclude(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, 5*w.opts.checkInterval)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var last sight
	for {
		seen := w.look(bounded)
		if bounded.Err() == nil {
			last = seen // what a cancelled look saw means nothing
		}
		if seen.agrees() {
			w.say("at the end %s leads; %d changes of the leader seen, %d replicas killed", seen.holder, w.judge.changes, w.kills)
			return w.balance(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-bounded.Done():
			return fmt.Errorf("at the end there is not exactly one leader: %v", last)
		case <-ticker.C:
		}
	}
}

// balance proves what the background loops did.
func (w *watch) balance(ctx context.Context) error {
	summary, err := w.books.balance(ctx)
	if err != nil {
		return ignoreInterrupt(ctx, err)
	}
	w.say("%s", summary)
	return nil
}

// tell enters a sight into the books, and prints what changed and what was paged.
func (w *watch) tell(seen sight) error {
	line, err := w.judge.observe(seen)
	if line != "" {
		w.say("%s", line)
	}
	for _, p := range w.monitor.pages.after(w.pages) {
		w.pages++
		w.say("%s", p)
	}
	return err
}

// kill kills the replica of that name as a crash would.
func (w *watch) kill(name string) error {
	i := slices.IndexFunc(w.replicas, func(r *replicaProcess) bool { return r.name == name })
	if i < 0 {
		return fmt.Errorf("the lock is held by %s, which is no replica of this demo", name)
	}
	r := w.replicas[i]
	w.say("killing %s (process %d), which leads", r.name, r.process.PID())
	r.killed = true
	w.kills++
	return r.process.Signal(syscall.SIGKILL)
}

// revive starts killed replicas again.
func (w *watch) revive() error {
	for _, r := range w.replicas {
		if !r.killed {
			continue
		}
		select {
		case <-r.process.Done():
			if err := w.startReplica(r); err != nil {
				return err
			}
		default:
		}
	}
	return nil
}
