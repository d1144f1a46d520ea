package loop

import "runtime/debug"

// thrown is how a pass unwound its goroutine.
type thrown struct {
	value any // what was given to panic
	stack []byte
}

// call calls fn in a goroutine of its own, which a runtime.Goexit of fn ends, and waits for it. It returns fn's error, or how it
// unwound.
func call(fn func() error) (unwound *thrown, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			value := recover()
			switch {
			case value != nil:
				unwound = &thrown{value: value, stack: debug.Stack()}
			case !returned:
				unwound = &thrown{value: "runtime.Goexit was called", stack: debug.Stack()}
			}
		}()
		err = fn()
		returned = true
	}()
	<-done
	return unwound, err
}
