package leader

import "context"

// termKey is under which a context of a term carries the term.
type termKey struct{}

// Fence returns a number that rises from leader to leader, and true, on the leader; on a standby it returns 0 and false.
// Store it with what the work writes and refuse a write with a smaller one: then a leader that was replaced without knowing
// it cannot undo its successor's work. It is the transaction id that the server gave to the statement that took the lock
// (manual, "System Information Functions", pg_current_xact_id). Safe from any goroutine.
//
// It rises within one cluster. It survives restarts and a failover to a synchronous standby; after one to an asynchronous
// standby it may step back by the transactions that were lost.
func (e *Elector) Fence() (uint64, bool) {
	if t := e.leading(); t != nil {
		return t.fence, true
	}
	return 0, false
}

// FenceFrom returns the fence of the term that ctx is a context of, also when that term is over: it names the term, it does
// not say that the replica leads. It returns false for a context that comes from no Term or Do. Of nested terms it returns
// the innermost. Safe from any goroutine.
func FenceFrom(ctx context.Context) (uint64, bool) {
	t, ok := ctx.Value(termKey{}).(*term)
	if !ok {
		return 0, false
	}
	return t.fence, true
}
