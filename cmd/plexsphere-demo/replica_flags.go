package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/plexsphere/leader-exporter/cmd/plexsphere-demo/replica"
)

// replicaFlags declares the flags of replica. What it returns is filled in when the command line is parsed.
func replicaFlags(cmd *kingpin.CmdClause) (rep *replica.Options, breaks *map[string]string) {
	rep = &replica.Options{DSN: os.Getenv("PLEXSPHERE_DSN")}
	cmd.Flag("name", "Shown as application_name.").Default("plexsphere").StringVar(&rep.Name)
	cmd.Flag("web.listen-address", "Where to serve /metrics and /readyz.").Default("127.0.0.1:0").StringVar(&rep.Address)
	cmd.Flag("check-interval", "CheckInterval of the elector.").Default("5s").DurationVar(&rep.CheckInterval)
	cmd.Flag("loop-interval", "Time from one pass of a loop to the next.").Default("30s").DurationVar(&rep.LoopInterval)
	cmd.Flag("sse-nonce-ttl", "Time from one pass of sse-nonce-sweep to the next; 0s is that of the other loops.").
		Default("0s").Envar("PLEXSPHERE_SSE_NONCE_TTL").DurationVar(&rep.NonceTTL)
	cmd.Flag("worker-restarts", "How many restarts a worker gets before it is given up, within ten minutes, or a longer time where their waits alone take that.").Default("10").IntVar(&rep.Restarts)
	cmd.Flag("worker-backoff", "Wait before a worker's first restart; it doubles with each further one.").Default("1s").DurationVar(&rep.MinBackoff)
	cmd.Flag("step-down-when-exhausted", "Give leadership up when a worker has spent its restarts, for as long as the process lives.").BoolVar(&rep.StepDownExhausted)
	cmd.Flag("cooldown", "How long the replica keeps away from the lock when it is told to stop.").Default("10m").DurationVar(&rep.Cooldown)
	cmd.Flag("boot-timeout", "Bound on the creation of the schema, and on each boot pass.").Default("30s").DurationVar(&rep.BootTimeout)
	breaks = cmd.Flag("break", "Break a loop on purpose, to see its probe, its metrics and its alerts: LOOP=error, panic, goexit, hang, or exit. May be given more than once.").
		PlaceHolder("LOOP=WAY").StringMap()
	return rep, breaks
}

// validateReplica checks the bounds of replica's flags, and turns no restarts into what package worker takes for none.
func validateReplica(o *replica.Options) error {
	var problems []error
	for flag, value := range map[string]time.Duration{
		"check-interval": o.CheckInterval, "loop-interval": o.LoopInterval, "worker-backoff": o.MinBackoff,
		"boot-timeout": o.BootTimeout,
	} {
		if value < time.Millisecond {
			problems = append(problems, fmt.Errorf("--%s=%v: want at least 1ms", flag, value))
		}
	}
	if o.Restarts < 0 {
		problems = append(problems, fmt.Errorf("--worker-restarts=%d: want 0 or more", o.Restarts))
	}
	if o.NonceTTL < 0 || o.Cooldown < 0 {
		problems = append(problems, errors.New("--sse-nonce-ttl (PLEXSPHERE_SSE_NONCE_TTL) and --cooldown: want 0s or more"))
	}
	if o.Restarts == 0 {
		o.Restarts = -1
	}
	return errors.Join(problems...)
}

// parseBreaks reads the values of --break.
func parseBreaks(flags map[string]string) (map[string]replica.Break, error) {
	breaks := make(map[string]replica.Break)
	for loop, name := range flags {
		way, err := replica.ParseBreak(name)
		if err != nil {
			return nil, fmt.Errorf("--break=%s=%w", loop, err)
		}
		breaks[loop] = way
	}
	return breaks, nil
}
