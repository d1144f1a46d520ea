package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/perf/benchfmt"
	"k8s.io/client-go/tools/leaderelection"
)

// goBenchmarks runs Go benchmarks of a package of the repository, and returns their figures by name and unit. Times are in seconds.
func (b *bench) goBenchmarks(ctx context.Context, folder, pattern string) (map[[2]string]samples, error) {
	cmd := exec.CommandContext(ctx, "go", "-C", b.root, "test", "-run", "^$", "-bench", pattern, "-benchtime", b.extent.benchTime,
		"-count", fmt.Sprint(b.extent.rounds), "./"+folder)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	found := make(map[[2]string]samples)
	reader := benchfmt.NewReader(bytes.NewReader(out), folder)
	for reader.Scan() {
		result, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			continue
		}
		base, parts := result.Name.Parts()
		name := string(base)
		for _, part := range parts {
			if part[0] == '/' { // else it is the number of CPUs
				name += string(part)
			}
		}
		for _, value := range result.Values {
			key := [2]string{name, value.Unit}
			found[key] = append(found[key], value.Value)
		}
	}
	return found, reader.Err()
}

// times returns the samples in another unit.
func times(s samples, factor float64) samples {
	scaled := make(samples, len(s))
	for i, v := range s {
		scaled[i] = v * factor
	}
	return scaled
}

// measurePoll compares a poll with SELECT 1 on the same connection.
func measurePoll(ctx context.Context, b *bench) error {
	found, err := b.goBenchmarks(ctx, "lockwatch", "^BenchmarkPoll$")
	if err != nil {
		return err
	}
	return b.add(row{
		what: "a poll, 0 other locks", unit: "µs", ours: times(found[[2]string{"Poll", "poll-sec"}], 1e6),
		alternative: "SELECT 1", theirs: times(found[[2]string{"Poll", "select1-sec"}], 1e6), atMost: 8,
	})
}

// measureElector compares what callers of an elector ask all the time.
func measureElector(ctx context.Context, b *bench) error {
	found, err := b.goBenchmarks(ctx, "leader", "^Benchmark(IsLeader|Do|Term)$")
	if err != nil {
		return err
	}
	clientGo, err := b.clientGoQuestion()
	if err != nil {
		return err
	}
	of := func(name string) samples { return times(found[[2]string{name, "sec/op"}], 1e9) }
	for _, question := range []struct {
		what, ours, alternative string
		theirs                  samples
		atMost                  float64
	}{
		{"IsLeader on the leader", "IsLeader/leader", "bool under a mutex", of("IsLeader/guarded_bool"), 0},
		{"IsLeader on a standby", "IsLeader/standby", "bool under a mutex", of("IsLeader/guarded_bool"), 0},
		{"IsLeader on a standby", "IsLeader/standby", "client-go", clientGo, 0},
		{"Do on the leader", "Do/leader", "bool under a mutex", of("Do/leader,_guarded_bool"), 0},
		{"Do on a standby", "Do/standby", "bool under a mutex", of("Do/standby,_guarded_bool"), 5},
		{"Term on the leader, and its cancel", "Term/leader", "context.WithCancelCause", of("Term/plain_context"), 0},
		{"Term on a standby", "Term/standby", "context.WithCancelCause", of("Term/plain_context"), 0},
	} {
		err := b.add(row{
			what: question.what, unit: "ns", ours: of(question.ours), alternative: question.alternative, theirs: question.theirs, atMost: question.atMost,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// clientGoQuestion measures client-go's IsLeader, the only one of the three questions that it has.
func (b *bench) clientGoQuestion() (took samples, err error) {
	elector, err := leaderelection.NewLeaderElector(newLease().seenBy("a").config(time.Second, func() {}, func() {}))
	if err != nil {
		return nil, err
	}
	for range b.extent.rounds {
		result := testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				elector.IsLeader()
			}
		})
		took = append(took, cmp.Or(float64(result.T.Nanoseconds())/float64(max(1, result.N)), 1))
	}
	return took, nil
}
