package replica

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// errBroken is the error of a loop that was broken on purpose.
var errBroken = errors.New("broken on purpose")

// Break is a way to break a loop on purpose, so that one can see what its probe, its metrics and its alerts do. The boot pass
// stays whole.
type Break string

// The ways. The empty one breaks nothing.
const (
	BreakError  Break = "error"  // each pass returns an error
	BreakPanic  Break = "panic"  // each pass panics
	BreakGoexit Break = "goexit" // each pass calls runtime.Goexit
	BreakHang   Break = "hang"   // a pass waits for the end of its context
	BreakExit   Break = "exit"   // the worker itself fails at each start, until its budget is spent
)

// ParseBreak reads the name of a way.
func ParseBreak(name string) (Break, error) {
	switch b := Break(name); b {
	case BreakError, BreakPanic, BreakGoexit, BreakHang, BreakExit:
		return b, nil
	default:
		return "", fmt.Errorf("%q: want error, panic, goexit, hang, or exit", name)
	}
}

// wrap breaks a pass.
func (b Break) wrap(p func(ctx context.Context) error) func(ctx context.Context) error {
	switch b {
	case BreakError:
		return func(context.Context) error { return errBroken }
	case BreakPanic:
		return func(context.Context) error { panic(errBroken) }
	case BreakGoexit:
		return func(context.Context) error {
			runtime.Goexit()
			return nil
		}
	case BreakHang:
		return func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
	default:
		return p
	}
}

// wrapWorker breaks a worker.
func (b Break) wrapWorker(run func(ctx context.Context) error) func(ctx context.Context) error {
	if b == BreakExit {
		return func(context.Context) error { return errBroken }
	}
	return run
}
