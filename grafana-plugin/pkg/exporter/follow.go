package exporter

import (
	"context"
	"math/rand/v2"
	"time"
)

// firstBackoff and lastBackoff bound the time before a connection is tried again.
const firstBackoff, lastBackoff = 250 * time.Millisecond, 15 * time.Second

// Follow sends changes to the channel until ctx ends. When the exporter goes away it sends one DisconnectedEvent, tries again, ever less
// often, and goes on after the last event that it has seen.
func (c *Client) Follow(ctx context.Context, f Filter, events chan<- Event) {
	send := func(event Event) error {
		select {
		case events <- event:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	lastID, wait, lost := "", firstBackoff, false
	for {
		err := c.Events(ctx, f, lastID, func(event Event) error {
			if event.Name == ConnectedEvent {
				lost = false
			} else {
				lastID, wait = event.ID, firstBackoff
			}
			return send(event)
		})
		if ctx.Err() != nil {
			return
		}
		if !lost && send(Event{Name: DisconnectedEvent, Err: err}) != nil {
			return
		}
		lost = true
		// Many panels come back to an exporter that has started again; jitter spreads them.
		timer := time.NewTimer(wait/2 + rand.N(wait/2))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		wait = min(2*wait, lastBackoff)
	}
}
