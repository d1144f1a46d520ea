package history

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

const (
	// format is the version of the file's layout that this package writes, and the only one that it reads.
	format = 1
	// lockTimeout is how long to wait for another process to let go of the file.
	lockTimeout = time.Second
	// smallestPage is the least size of a page, in bytes: that of the machine on which the file was made.
	smallestPage = 4096
)

// The buckets, and the one key of the first.
const (
	headBucket  = "leader-exporter-history"
	formatKey   = "format"
	termsBucket = "terms"
	openBucket  = "open"
)

var (
	errLocked     = errors.New("another process has it open")
	errNotHistory = errors.New("it is not a history of leader-exporter, or its beginning is damaged")
)

// create makes an empty history at path if nothing is there. It is made under another name first: a kill leaves a whole history
// or none, and perhaps the temporary file.
func create(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // its second name, or what is left after an error
	if err := temporary.Close(); err != nil {
		return err
	}
	s := &Store{cfg: Config{}.withDefaults(), name: temporary.Name()}
	if err := s.open(&bbolt.Options{}); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	// A rename would replace the file of a process that starts at the same moment; only some file systems have no links.
	err = os.Link(temporary.Name(), path)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder writes the names of a folder to disk.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	// Windows and some network file systems flush no folder, and none of them needs it to keep the file.
	_ = folder.Sync()
	return folder.Close()
}

// open opens the file of that name, checks what can be checked at once, and writes the head of an empty one. After an error the
// file is closed.
func (s *Store) open(options *bbolt.Options) error {
	openFile := options.OpenFile
	if openFile == nil {
		openFile = os.OpenFile
	}
	options.Timeout = lockTimeout
	options.OpenFile = func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
		s.file, err = openFile(name, flag, mode)
		if err == nil {
			err = checkSize(s.file, options.ReadOnly)
		}
		return s.file, err
	}
	err := s.guard(func() (err error) {
		s.db, err = bbolt.Open(s.name, 0o600, options)
		return err
	})
	if err != nil {
		_ = s.abandon() // bbolt has closed it if it could
		return err
	}
	if err := s.check(!options.ReadOnly); err != nil {
		return errors.Join(err, s.close())
	}
	return nil
}

// checkSize returns an error where the file cannot have the two pages that begin a history, unless it is empty and may become one.
func checkSize(f *os.File, readOnly bool) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if size := info.Size(); size < 2*smallestPage && (size > 0 || readOnly) {
		return errNotHistory
	}
	return nil
}

// check returns an error unless the file has the length that it says and is a history of this format. An empty one is made a
// history if it may be written.
func (s *Store) check(writable bool) error {
	fresh := false
	err := s.view(func(tx *bbolt.Tx) error {
		info, err := s.file.Stat()
		if err != nil {
			return err
		}
		if tx.Size() > info.Size() {
			return fmt.Errorf("it is damaged: %d bytes are left of %d", info.Size(), tx.Size())
		}
		if first, _ := tx.Cursor().First(); first == nil && writable {
			fresh = true
			return nil
		}
		return checkHead(tx)
	})
	if err != nil || !fresh {
		return err
	}
	return s.update(func(tx *bbolt.Tx) error {
		for _, name := range []string{headBucket, termsBucket, openBucket} {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return tx.Bucket([]byte(headBucket)).Put([]byte(formatKey), []byte(strconv.Itoa(format)))
	})
}

// checkHead returns an error unless the head names this format and the buckets are there.
func checkHead(tx *bbolt.Tx) error {
	head := tx.Bucket([]byte(headBucket))
	if head == nil {
		return errNotHistory
	}
	found, err := strconv.Atoi(string(head.Get([]byte(formatKey))))
	switch {
	case err != nil || found < 1:
		return errNotHistory
	case found != format:
		return fmt.Errorf("its format is %d, and this program knows only %d", found, format)
	case tx.Bucket([]byte(termsBucket)) == nil || tx.Bucket([]byte(openBucket)) == nil:
		return errors.New("it is damaged: a bucket is missing")
	}
	return nil
}

// openError returns an error of the package's edge that names the file once.
func openError(name string, err error) error {
	var path *fs.PathError
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		err = errLocked
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch), errors.Is(err, berrors.ErrChecksum):
		err = fmt.Errorf("%w (%w)", errNotHistory, err)
	case errors.As(err, &path) && path.Path == name:
		err = path.Err
	}
	return fmt.Errorf("history: open %s: %w", name, err)
}
