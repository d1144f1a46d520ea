package child

import "syscall"

// dieWithParent asks the kernel to signal the process when its parent dies.
func dieWithParent(attr *syscall.SysProcAttr, deathSignal syscall.Signal) {
	attr.Pdeathsig = deathSignal
}
