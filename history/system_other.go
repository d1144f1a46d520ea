//go:build !linux

package history

import "os"

// openMemory returns a new file without a name, which is gone when it is closed.
func openMemory(string, int, os.FileMode) (*os.File, error) {
	f, err := os.CreateTemp("", "leader-exporter-history-*")
	if err != nil {
		return nil, err
	}
	// Windows may refuse, and then keeps the file in its temporary folder.
	_ = os.Remove(f.Name())
	return f, nil
}

// unlock does nothing: elsewhere a file that is closed has no lock, also while it is mapped.
func unlock(*os.File) error { return nil }
