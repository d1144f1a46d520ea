package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"go.etcd.io/bbolt"
)

// view runs fn in a transaction that reads.
func (s *Store) view(fn func(*bbolt.Tx) error) error {
	return s.guard(func() error { return s.db.View(fn) })
}

// update runs fn in a transaction that is on disk when update returns nil, and undone otherwise.
func (s *Store) update(fn func(*bbolt.Tx) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.guard(func() error { return s.db.Update(fn) })
}

// guard runs fn, and turns what bbolt makes of a damaged file into an error: a panic where a page contradicts itself, a fault
// of memory where the map reaches beyond the file's end. bbolt may be left with locks that nobody gives back, so after the
// first of these each later call returns the same error.
func (s *Store) guard(fn func() error) (err error) {
	if damage := s.damage.Load(); damage != nil {
		return *damage
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		// A library here lets a panic pass; ADR 0018 says why this one does not.
		if p := recover(); p != nil {
			err = fmt.Errorf("it is damaged: %v", p)
			if s.damage.CompareAndSwap(nil, &err) {
				s.cfg.Logger.ErrorContext(context.Background(), "history is damaged",
					slog.String("file", s.name), slog.Any("error", err), slog.String("stack", string(debug.Stack())))
			}
		}
	}()
	return fn()
}

// abandon closes the file in bbolt's stead, after a panic or where bbolt may have done so already. A memory map that bbolt has made stays until
// the process ends.
func (s *Store) abandon() error {
	if s.file == nil {
		return nil
	}
	err := errors.Join(unlock(s.file), s.file.Close())
	s.file = nil
	return err
}
