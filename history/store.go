package history

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
)

// The defaults of Config.
const (
	DefaultRetention = 90 * 24 * time.Hour
	DefaultMaxTerms  = 100_000
)

// Config is what Open needs. The zero value keeps terms in memory.
type Config struct {
	// Path is the file. It is made, for its owner alone, where there is none; its folder must be there, and takes a temporary
	// file while it is made. Empty: the terms are kept in memory, and are gone after Close.
	Path string
	// Retention is how long a term is kept after its end. Zero and negative: DefaultRetention.
	Retention time.Duration
	// MaxTerms is how many terms are kept: beyond it Put deletes the first of the locks that have the most, a hundredth of MaxTerms at
	// once. Zero and negative: DefaultMaxTerms, which take some 50 MB.
	MaxTerms int
	// Logger takes one line when MaxTerms is first met, and one when the file turns out damaged. Nil: nothing is logged.
	Logger *slog.Logger
}

// withDefaults returns c with each default in its place.
func (c Config) withDefaults() Config {
	if c.Retention <= 0 {
		c.Retention = DefaultRetention
	}
	if c.MaxTerms <= 0 {
		c.MaxTerms = DefaultMaxTerms
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Store is a history that is open. Make it by Open or OpenReadOnly, and close it.
type Store struct {
	cfg  Config
	name string // of the file, for errors
	db   *bbolt.DB
	file *os.File // that of db, which closes it; Close does so where db no longer can

	// writing is held by whoever writes. bbolt has such a lock too, but a panic in the midst of a rollback leaves that locked.
	writing sync.Mutex
	damage  atomic.Pointer[error] // what the first panic said; set once
	full    atomic.Bool           // the line about MaxTerms was written
}

// Open opens the history of cfg.Path for reading and writing, and makes it where there is none. It waits up to a second for
// another process to let go of the file. The errors name the file: it is locked, damaged, no history, or one of a later format.
func Open(cfg Config) (*Store, error) {
	s := &Store{cfg: cfg.withDefaults(), name: cfg.Path}
	options := &bbolt.Options{}
	if cfg.Path == "" {
		s.name, options.NoSync, options.OpenFile = "memory", true, openMemory
	} else if err := create(cfg.Path); err != nil {
		return nil, openError(s.name, err)
	}
	if err := s.open(options); err != nil {
		return nil, openError(s.name, err)
	}
	return s, nil
}

// OpenReadOnly opens the history at path for reading: Put and Expire of the Store return an error. Any number of readers may
// have the file open, but no writer beside them: it waits up to a second for one to end, and then returns an error that says so, as
// Open's do.
func OpenReadOnly(path string) (*Store, error) {
	s := &Store{cfg: Config{}.withDefaults(), name: path}
	if err := s.open(&bbolt.Options{ReadOnly: true}); err != nil {
		return nil, openError(path, err)
	}
	return s, nil
}

// closeTimeout bounds Close.
const closeTimeout = time.Second

// Close ends the use of the file, after the calls that are under way; those that come later return an error. A second Close
// does nothing. Where a call does not end, since the disk hangs, Close returns an error after a second, and the file is closed when the call ends.
func (s *Store) Close() error {
	closed := make(chan error, 1)
	go func() { closed <- s.close() }()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case err := <-closed:
		return err
	case <-timer.C:
		return fmt.Errorf("history: close %s: a call has not ended after %v", s.name, closeTimeout)
	}
}

func (s *Store) close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.damage.Load() != nil {
		return s.abandon() // bbolt would wait for locks that nobody gives back
	}
	return s.db.Close()
}
