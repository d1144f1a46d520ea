package history

import (
	"os"

	"golang.org/x/sys/unix"
)

// openMemory returns a new file that has no place on a disk: a container may have no folder that can be written to.
func openMemory(name string, _ int, _ os.FileMode) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// unlock gives back bbolt's lock on the file. On Linux a memory map keeps the lock of a file that is closed.
func unlock(f *os.File) error {
	return os.NewSyscallError("flock", unix.Flock(int(f.Fd()), unix.LOCK_UN))
}
