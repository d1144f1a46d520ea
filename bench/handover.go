package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/plexsphere/leader-exporter/internal/faultproxy"
	"github.com/plexsphere/leader-exporter/internal/pgserver"
	"github.com/plexsphere/leader-exporter/leader"
	"github.com/plexsphere/leader-exporter/lockkey"
)

// checkInterval is that of the handovers: client-go counts its lease in whole seconds.
const checkInterval = time.Second

// The faults. After a crash the kernel closes the sockets of the process, which client-go's lease knows nothing of.
const (
	cleanStop = "clean stop"
	crash     = "crash (kill -9)"
	partition = "partition"
)

// pair is two replicas of which the first leads when the fault comes.
type pair interface {
	// strike brings the fault to the first replica.
	strike(fault string)
	// first and second report whether the replica takes itself for the leader.
	first() bool
	second() bool
	close()
}

// handovers are samples by fault, in check intervals.
type handovers struct {
	mu                 sync.Mutex
	demoted, succeeded figures
}

// measureHandover brings each fault to a pair of each kind, all at the same time: they wait nearly all of it.
func measureHandover(ctx context.Context, b *bench) error {
	server, err := b.server(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	ourTimes, theirTimes := &handovers{demoted: figures{}, succeeded: figures{}}, &handovers{demoted: figures{}, succeeded: figures{}}
	var all errgroup.Group
	start := func(into *handovers, fault string, wait time.Duration, open func() (pair, error)) {
		all.Go(func() error {
			if err := into.measure(ctx, fault, wait, open); err != nil {
				return fmt.Errorf("%s: %w", fault, err)
			}
			return nil
		})
	}
	number := int32(0)
	for _, fault := range []string{cleanStop, crash, partition} {
		for n := range b.extent.rounds {
			number++
			key := number
			wait := checkInterval * time.Duration(n) / time.Duration(b.extent.rounds) // strike at different moments between two checks
			start(ourTimes, fault, wait, func() (pair, error) { return newElectors(ctx, server, key) })
			start(theirTimes, fault, wait, func() (pair, error) { return newLeases(ctx) })
		}
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for _, fault := range []string{cleanStop, crash, partition} {
		err := b.add(row{
			what: fault + ": until the next leader", unit: "check intervals", ours: ourTimes.succeeded[fault], alternative: "client-go", theirs: theirTimes.succeeded[fault],
		})
		if err != nil {
			return err
		}
	}
	return b.add(row{
		what: partition + ": until the old leader knows", unit: "check intervals", ours: ourTimes.demoted[partition], alternative: "client-go", theirs: theirTimes.demoted[partition],
	})
}

func (h *handovers) measure(ctx context.Context, fault string, wait time.Duration, open func() (pair, error)) error {
	p, err := open()
	if err != nil {
		return err
	}
	defer p.close()
	if err := eventually(ctx, "the first replica leads", p.first); err != nil {
		return err
	}
	if err := pause(ctx, 2*checkInterval+wait); err != nil {
		return err
	}
	begin := time.Now()
	p.strike(fault)
	var old sync.WaitGroup
	old.Go(func() {
		if fault == partition && eventually(ctx, "the old leader knows", func() bool { return !p.first() }) == nil {
			h.note(h.demoted, fault, begin)
		}
	})
	err = eventually(ctx, "the second replica leads", p.second)
	if err == nil {
		h.note(h.succeeded, fault, begin)
	}
	old.Wait()
	return err
}

func (h *handovers) note(into figures, fault string, begin time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	into.note(fault, float64(time.Since(begin))/float64(checkInterval))
}

// electors are two of package leader, the first behind a proxy.
type electors struct {
	proxy         *faultproxy.Proxy
	pools         []*pgxpool.Pool
	stopped       context.CancelFunc // the first replica
	cancel        context.CancelFunc // both
	all           sync.WaitGroup
	before, after *leader.Elector
}

func newElectors(ctx context.Context, server *pgserver.Server, key int32) (p *electors, err error) {
	p = &electors{}
	ctx, p.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.proxy, err = faultproxy.Start(fmt.Sprintf("127.0.0.1:%d", server.Port())); err != nil {
		return p, err
	}
	first, stopped := context.WithCancel(ctx)
	p.stopped = stopped
	if p.before, err = p.elector(ctx, server, key, p.proxy); err != nil {
		return p, err
	}
	if p.after, err = p.elector(ctx, server, key, nil); err != nil {
		return p, err
	}
	p.all.Go(func() { _ = p.before.Run(first) })
	if err := eventually(ctx, "the first replica leads", p.before.IsLeader); err != nil {
		return p, err
	}
	p.all.Go(func() { _ = p.after.Run(ctx) })
	return p, nil
}

// elector makes a replica with a pool of its own, through the proxy if there is one.
func (p *electors) elector(ctx context.Context, server *pgserver.Server, key int32, proxy *faultproxy.Proxy) (*leader.Elector, error) {
	config, err := pgxpool.ParseConfig(server.DSN("postgres"))
	if err != nil {
		return nil, err
	}
	config.MaxConns = 2
	if proxy != nil {
		config.ConnConfig.Host, config.ConnConfig.Port = proxy.Host(), proxy.Port()
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	p.pools = append(p.pools, pool)
	return leader.New(leader.Config{
		Pool: pool, CheckInterval: checkInterval, Key: lockkey.Pair(9, key), Logger: slog.New(slog.DiscardHandler),
	})
}

func (p *electors) strike(fault string) {
	switch fault {
	case cleanStop:
		p.stopped()
	case crash: // to the server a process that is killed is a connection that ends, and nobody there asks the old leader any more
		p.proxy.Close()
	case partition:
		p.proxy.Cut()
	}
}

func (p *electors) first() bool  { return p.before.IsLeader() }
func (p *electors) second() bool { return p.after.IsLeader() }

func (p *electors) close() {
	p.cancel()
	if p.proxy != nil {
		p.proxy.Close()
	}
	p.all.Wait()
	for _, pool := range p.pools {
		pool.Close()
	}
}

// leases are two electors of client-go.
type leases struct {
	seen       *seenLease // the first one's
	led, leads atomic.Bool
	stopped    context.CancelFunc
	cancel     context.CancelFunc
	all        sync.WaitGroup
}

func newLeases(ctx context.Context) (*leases, error) {
	l := newLease()
	p := &leases{seen: l.seenBy("a")}
	ctx, p.cancel = context.WithCancel(ctx)
	first, stopped := context.WithCancel(ctx)
	p.stopped = stopped
	before, err := leaderelection.NewLeaderElector(p.seen.config(checkInterval, func() { p.led.Store(true) }, func() { p.led.Store(false) }))
	if err != nil {
		return p, err
	}
	after, err := leaderelection.NewLeaderElector(l.seenBy("b").config(checkInterval, func() { p.leads.Store(true) }, func() { p.leads.Store(false) }))
	if err != nil {
		return p, err
	}
	p.all.Go(func() { before.Run(first) })
	if err := eventually(ctx, "the first replica leads", p.led.Load); err != nil {
		p.close()
		return p, err
	}
	p.all.Go(func() { after.Run(ctx) })
	return p, nil
}

func (p *leases) strike(fault string) {
	if fault == cleanStop {
		p.stopped()
		return
	}
	p.seen.cutOff() // a process that is gone renews no more, and that is all that a lease knows
}

func (p *leases) first() bool  { return p.led.Load() }
func (p *leases) second() bool { return p.leads.Load() }

func (p *leases) close() {
	p.cancel()
	p.all.Wait()
}
