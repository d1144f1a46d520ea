package leadertest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Merge records the events that another History wrote to its Sink, each as it comes, until the reader ends. A last line
// without its end is left out: its writer was killed. Merge returns the first error of the reader, or of a line that is no event.
func (h *History) Merge(r io.Reader) error {
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("leadertest: merge events: %w", err)
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("leadertest: merge events: line %d: %w", n, err)
		}
		if e.At.IsZero() || e.Kind == "" {
			return fmt.Errorf("leadertest: merge events: line %d has no moment or no kind: %.100q", n, line)
		}
		h.Record(e)
	}
}
