package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// defaultAsk is how often a WhileLeader on a standby asks whether it leads, unless its Config says otherwise.
const defaultAsk = time.Second

// Leader is whom a loop asks; a leader.Elector is one.
type Leader interface {
	// Do calls fn if this replica leads, with a context of its term. It returns false when it did not call fn, and when the
	// term was lost meanwhile; else true and fn's error.
	Do(ctx context.Context, fn func(ctx context.Context) error) (bool, error)
	// Term returns a context that ends with the present term or with parent, and true; on a standby an ended one and false.
	Term(parent context.Context) (context.Context, context.CancelFunc, bool)
}

// Config says what a loop is called, when it runs, and whom it tells. It is copied by NewTicker and NewWhileLeader.
type Config struct {
	// Name is the value of the label and of the attribute loop. Required: UTF-8, not empty.
	Name string

	// Every is the time from one tick of a Ticker to the next; there it is required. For a WhileLeader it is how often a
	// standby asks whether it leads by now, so how late the call may come in a term; asking costs nothing worth a longer wait.
	// Zero and negative mean a second there.
	Every time.Duration

	// Leader is asked before anything is called. Required; a nil pointer in it is not noticed.
	Leader Leader

	// Logger receives one line per failed tick, one more per panic, and one per call that a demotion cut short. Nil means
	// slog.Default().
	Logger *slog.Logger

	// Registerer receives the metrics plexsphere_background_loop_..., with the label loop. Nil registers none. All loops of a
	// process share one Registerer, on which each must have a name of its own; that is not checked.
	Registerer prometheus.Registerer
}

// withDefaults returns c with its optional fields filled in.
func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// validate names everything that is missing.
func (c Config) validate(isNil bool) error {
	var problems []error
	if c.Name == "" || !utf8.ValidString(c.Name) {
		problems = append(problems, fmt.Errorf("Config.Name %q is empty or not UTF-8", c.Name))
	}
	if c.Every <= 0 {
		problems = append(problems, fmt.Errorf("Config.Every is %v, want more than 0", c.Every))
	}
	if c.Leader == nil {
		problems = append(problems, errors.New("Config.Leader is nil"))
	}
	if isNil {
		problems = append(problems, errors.New("the function is nil"))
	}
	return errors.Join(problems...)
}
