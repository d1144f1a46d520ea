package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is the object that client-go elects by, in memory in place of the API server: an update succeeds only for who has seen the last one.
type lease struct {
	mu      sync.Mutex
	record  *resourcelock.LeaderElectionRecord
	version int
}

func newLease() *lease { return &lease{} }

// seenBy returns the lease as a replica of that name sees it.
func (l *lease) seenBy(name string) *seenLease { return &seenLease{lease: l, name: name} }

// seenLease is the lease as one replica sees it. It implements resourcelock.Interface.
type seenLease struct {
	lease   *lease
	name    string
	version int // that this replica has seen

	mu  sync.Mutex
	cut bool
}

// cutOff parts the replica from the lease: its requests hang until their context ends.
func (s *seenLease) cutOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = true
}

func (s *seenLease) reach(ctx context.Context) error {
	s.mu.Lock()
	cut := s.cut
	s.mu.Unlock()
	if cut {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (s *seenLease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := s.reach(ctx); err != nil {
		return nil, nil, err
	}
	s.lease.mu.Lock()
	defer s.lease.mu.Unlock()
	s.version = s.lease.version
	if s.lease.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "lease")
	}
	record := *s.lease.record
	text, err := json.Marshal(record)
	return &record, text, err
}

func (s *seenLease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return s.Update(ctx, record)
}

func (s *seenLease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := s.reach(ctx); err != nil {
		return err
	}
	s.lease.mu.Lock()
	defer s.lease.mu.Unlock()
	if s.version != s.lease.version {
		return errors.New("the lease was changed meanwhile")
	}
	s.lease.version++
	s.lease.record, s.version = &record, s.lease.version
	return nil
}

// config is client-go's, in the same proportions as the bounds of package leader: it tries each interval, a leader gives up after two
// without success, and its lease ends after four.
func (s *seenLease) config(interval time.Duration, started, stopped func()) leaderelection.LeaderElectionConfig {
	return leaderelection.LeaderElectionConfig{
		Lock: s, LeaseDuration: 4 * interval, RenewDeadline: 2 * interval, RetryPeriod: interval, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { started() }, OnStoppedLeading: stopped},
	}
}

func (*seenLease) RecordEvent(string) {}
func (s *seenLease) Identity() string { return s.name }
func (*seenLease) Describe() string   { return "lease" }
