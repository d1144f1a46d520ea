package worker

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// errGoexit is the value of a PanicError for a worker that called runtime.Goexit, as testing.T.FailNow does.
var errGoexit = errors.New("runtime.Goexit was called")

// PanicError is the failure of a worker that panicked.
type PanicError struct {
	Value any    // what was given to panic; an error that says so after a runtime.Goexit
	Stack []byte // of the goroutine that panicked, as debug.Stack gives it
}

// Error says what the worker panicked with. The stack is not in it.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error, else nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// call calls fn in a goroutine of its own, which a runtime.Goexit of fn ends, and waits for it. It returns fn's error, or how it
// panicked.
func call(fn func() error) (panicked *PanicError, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			value := recover()
			switch {
			case value != nil:
				panicked = &PanicError{Value: value, Stack: debug.Stack()}
			case !returned:
				panicked = &PanicError{Value: errGoexit, Stack: debug.Stack()}
			}
		}()
		err = fn()
		returned = true
	}()
	<-done
	return panicked, err
}
