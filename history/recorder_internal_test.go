package history

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/plexsphere/leader-exporter/lockwatch"
)

// What is being written is told of, and a write that failed does not undo what was noted while it was under way.
func TestAFailedWriteOverwritesNothingNewer(t *testing.T) {
	store, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := NewRecorder(store, slog.New(slog.DiscardHandler))
	defer store.Close()
	begun := lockwatch.Term{Lock: "leader", Holder: lockwatch.Holder{PID: 1, TermStart: time.Unix(1, 0)}}
	other := lockwatch.Term{Lock: "leader", Holder: lockwatch.Holder{PID: 2, TermStart: time.Unix(2, 0)}}
	over := begun
	over.End = time.Unix(3, 0)
	r.writing = batch{}
	r.writing.set("eu", begun)
	r.writing.set("eu", other)
	r.Note("eu", lockwatch.Snapshot{Changes: []lockwatch.Term{over}})
	page, err := r.Terms(Query{})
	if err != nil || len(page.Terms) != 2 || page.Terms[0].Holder.PID != 2 || page.Terms[1].End.IsZero() {
		t.Errorf("while it is written: %+v, %v; want the second and the end of the first", page.Terms, err)
	}
	r.written("eu", false)
	if got := r.pending["eu"]; len(got) != 2 || got[idOf(over)] != over || got[idOf(other)] != other || r.waiting != 2 || len(r.writing["eu"]) != 0 {
		t.Errorf("%d wait: %+v; want the end of the first and the second", r.waiting, got)
	}
}

// Close does not wait for a call that does not end, and the file is closed when it does.
func TestCloseWaitsForNoCallThatDoesNotEnd(t *testing.T) {
	store, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	store.writing.Lock() // as whoever waits for the disk has it
	if err := store.Close(); err == nil || !strings.Contains(err.Error(), "history: close memory: a call has not ended") {
		t.Errorf("Close beside a write: %v", err)
	}
	store.writing.Unlock()
	if err := store.Close(); err != nil {
		t.Errorf("Close after the write: %v", err)
	}
}
