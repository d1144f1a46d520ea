// Package logtest keeps what a program logs, for the test that promises its lines.
package logtest

import (
	"context"
	"log/slog"
	"strings"
	"sync"
)

// Lines is a slog.Handler that keeps every line: level, message, attributes. The zero value is empty; every method is safe from
// any goroutine.
type Lines struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

// Enabled implements slog.Handler: every level is kept.
func (l *Lines) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler. It keeps no attributes: the packages under test add none to their logger.
func (l *Lines) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler, and ignores the group.
func (l *Lines) WithGroup(string) slog.Handler { return l }

// Handle implements slog.Handler.
func (l *Lines) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	line.WriteString(r.Level.String() + " " + r.Message)
	r.Attrs(func(a slog.Attr) bool {
		line.WriteString(" " + a.String())
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line.String())
	return nil
}

// With returns the lines that contain the text, in their order.
func (l *Lines) With(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}
