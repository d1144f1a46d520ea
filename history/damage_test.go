package history_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/plexsphere/leader-exporter/history"
	"github.com/plexsphere/leader-exporter/internal/logtest"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// sample returns the bytes of a history of 300 terms, and how many of them are in use.
func sample(t *testing.T) (file []byte, used int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.db")
	s, err := history.Open(history.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		var terms []lockwatch.Term
		for j := 30 * i; j < 30*i+30; j++ {
			terms = append(terms, ended(j, j+1, uint32(j)), open(j, 1000))
		}
		put(t, s, "eu", terms...)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		used = int(tx.Size())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return file, used
}

// writeFile writes a new file and returns its path.
func writeFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// refused fails the test unless both ways to open the file return an error that names it and contains the text.
func refused(t *testing.T, path, text string) {
	t.Helper()
	_, writeErr := history.Open(history.Config{Path: path})
	_, readErr := history.OpenReadOnly(path)
	for _, err := range []error{writeErr, readErr} {
		if text == "" && err != nil && strings.Contains(err.Error(), "another process") {
			t.Errorf("%v, but none has", err)
		}
		if err == nil || !strings.HasPrefix(err.Error(), "history: open "+path+": ") || !strings.Contains(err.Error(), text) {
			t.Errorf("opened a bad file: %v; want an error with its name and %q", err, text)
		}
	}
}

func TestAFileThatIsNoHistoryIsRefused(t *testing.T) {
	const notHistory = "it is not a history of leader-exporter"
	for name, content := range map[string][]byte{
		"one byte":         {0},
		"text":             []byte(strings.Repeat("time,leader\n", 10_000)),
		"zeros":            make([]byte, 1<<16),
		"a page of zeros":  make([]byte, 4096),
		"less than a page": make([]byte, 4095),
	} {
		t.Run(name, func(t *testing.T) { refused(t, writeFile(t, content), notHistory) })
	}
	t.Run("a folder", func(t *testing.T) { refused(t, t.TempDir(), "") })
	t.Run("another program's bbolt", func(t *testing.T) {
		refused(t, boltFile(t, map[string]string{"series/name": "1"}), notHistory)
	})
	t.Run("a later format", func(t *testing.T) {
		refused(t, boltFile(t, map[string]string{"leader-exporter-history/format": "2"}), "its format is 2, and this program knows only 1")
	})
	t.Run("no format", func(t *testing.T) {
		refused(t, boltFile(t, map[string]string{"leader-exporter-history/format": "new"}), notHistory)
	})
	t.Run("no buckets", func(t *testing.T) {
		refused(t, boltFile(t, map[string]string{"leader-exporter-history/format": "1"}), "a bucket is missing")
	})
}

// boltFile writes a bbolt file with these buckets and keys, and returns its path.
func boltFile(t *testing.T, content map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for name, value := range content {
			bucket, key, _ := strings.Cut(name, "/")
			b, err := tx.CreateBucketIfNotExists([]byte(bucket))
			if err != nil {
				return err
			}
			if err := b.Put([]byte(key), []byte(value)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAnEmptyFileBecomesAHistoryButCannotBeRead(t *testing.T) {
	path := writeFile(t, nil)
	if _, err := history.OpenReadOnly(path); err == nil || !strings.Contains(err.Error(), "it is not a history") {
		t.Errorf("OpenReadOnly: %v", err)
	}
	put(t, openStore(t, history.Config{Path: path}), "eu", open(1, 1))
}

func TestAMissingFileCannotBeReadAndAMissingFolderNotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "history.db")
	refused(t, path, "no such file or directory")
}

func TestAFileThatWasCutIsRefusedAtEveryLength(t *testing.T) {
	file, used := sample(t)
	lengths := []int{1, 4095, 4096, 4097, 8191, 8192, 8193, used - 1}
	for length := 100; length < used; length += 1013 {
		lengths = append(lengths, length)
	}
	for _, length := range lengths {
		refused(t, writeFile(t, file[:length]), "")
	}
	// What is cut off here was never used.
	s := openStore(t, history.Config{Path: writeFile(t, file[:used])})
	if got := len(all(t, s, history.Query{})); got != 600 {
		t.Errorf("%d terms in a file that lost nothing, want 600", got)
	}
}

func TestAFileThatIsCutWhileItIsOpenGivesErrors(t *testing.T) {
	file, _ := sample(t)
	var lines logtest.Lines
	path := writeFile(t, file)
	s, err := history.Open(history.Config{Path: path, Logger: slog.New(&lines)})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 8192); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Put("eu", ended(150, 152, 150)); err == nil || !strings.Contains(err.Error(), path+": it is damaged") {
			t.Errorf("Put: %v", err)
		}
		if _, err := s.Terms(history.Query{}); err == nil || !strings.Contains(err.Error(), path+": it is damaged") {
			t.Errorf("Terms: %v", err)
		}
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if got := lines.With("ERROR history is damaged file=" + path); len(got) != 1 || !strings.Contains(got[0], "query.go") && !strings.Contains(got[0], "put.go") {
		t.Errorf("logged %q; want one line with the stack", lines.With(""))
	}
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := len(all(t, openStore(t, history.Config{Path: path}), history.Query{})); got != 600 {
		t.Errorf("%d terms once the file is whole again, want 600: the first Close let go of it", got)
	}
}

func TestATermThatCannotBeReadIsAnErrorOfItsPageAlone(t *testing.T) {
	file, _ := sample(t)
	file = bytes.ReplaceAll(file, []byte(`"end":"2026-03-01T00:00:02Z"`), []byte(`"end":"2026-13-01T00:00:02Z"`))
	s := openStore(t, history.Config{Path: writeFile(t, file)})
	if _, err := s.Terms(history.Query{To: day().Add(2 * time.Second)}); err == nil || !strings.Contains(err.Error(), "it is damaged: decode the term of 2026-03-01 00:00:01") {
		t.Errorf("Terms: %v", err)
	}
	if _, err := s.Terms(history.Query{}); err != nil {
		t.Errorf("Terms of another page: %v", err)
	}
}

// TestRandomDamageGivesErrorsAndNoPanic strikes whole pages and single bytes. Its seed is fixed, because some damage ends the
// process (see doc.go), and which does is not for a test of every day to find out.
func TestRandomDamageGivesErrorsAndNoPanic(t *testing.T) {
	file, used := sample(t)
	random := rand.New(rand.NewPCG(1, 2))
	failures := 0
	for round := range 100 {
		damaged := bytes.Clone(file)
		page := 4096 * random.IntN(used/4096)
		switch round % 3 {
		case 0:
			clear(damaged[page : page+4096])
		case 1:
			copy(damaged[page:page+4096], damaged[4096*random.IntN(used/4096):])
		default:
			for range 1 + random.IntN(8) {
				damaged[page+random.IntN(64)] = byte(random.Uint32())
			}
		}
		if err := useAll(writeFile(t, damaged)); err != nil {
			failures++
		}
	}
	t.Logf("%d of 100 damaged files gave an error", failures)
	if failures < 20 {
		t.Errorf("only %d of 100 damaged files gave an error", failures)
	}
}

// useAll does with a file what can be done, and returns the first error.
func useAll(path string) error {
	s, err := history.Open(history.Config{Path: path, Retention: time.Second})
	if err != nil {
		return err
	}
	_, errTerms := s.Terms(history.Query{Limit: 1000})
	_, errOpen := s.OpenTerms()
	errPut := s.Put("eu", ended(150, 151, 150), open(9999, 1))
	_, errExpire := s.Expire(day().Add(200 * time.Second))
	errClose := s.Close()
	for _, err := range []error{errTerms, errOpen, errPut, errExpire, errClose} {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestOnlyOneProcessWritesAndReadersShare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	writer, err := history.Open(history.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	put(t, writer, "eu", open(1, 1))
	began := time.Now()
	refused(t, path, "another process has it open")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("two refusals took %v, want some two seconds", took)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		reader, err := history.OpenReadOnly(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := reader.Close(); err != nil {
				t.Error(err)
			}
		})
		same(t, fmt.Sprint("terms of reader ", i), all(t, reader, history.Query{}), []history.Entry{{Target: "eu", Term: open(1, 1)}})
		if err := reader.Put("eu", open(2, 2)); err == nil {
			t.Error("a reader put a term")
		}
		if _, err := reader.Expire(time.Now()); err == nil {
			t.Error("a reader expired terms")
		}
	}
	if _, err := history.Open(history.Config{Path: path}); err == nil || !strings.Contains(err.Error(), "another process has it open") {
		t.Errorf("a writer beside readers: %v", err)
	}
}
