//go:build !linux

package child

import "syscall"

// dieWithParent does nothing: only Linux signals the children of a process that dies.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
