package history_test

import (
	"path/filepath"
	"testing"

	"github.com/plexsphere/leader-exporter/history"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// BenchmarkPut puts one term a transaction: in a file each waits for the disk's flush, in memory it does not.
func BenchmarkPut(b *testing.B) {
	for name, path := range map[string]string{"file": filepath.Join(b.TempDir(), "history.db"), "memory": ""} {
		b.Run(name, func(b *testing.B) {
			s := openStore(b, history.Config{Path: path})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				put(b, s, "eu", ended(i, i+1, 1))
			}
		})
	}
}

// BenchmarkPutWhenFull puts one term a transaction into a history in memory that has all the terms it may have, beside one that has room.
func BenchmarkPutWhenFull(b *testing.B) {
	for name, limit := range map[string]int{"full": history.DefaultMaxTerms, "room": 100 * history.DefaultMaxTerms} {
		b.Run(name, func(b *testing.B) {
			s := openStore(b, history.Config{MaxTerms: limit})
			var terms []lockwatch.Term
			for i := range history.DefaultMaxTerms {
				terms = append(terms, ended(i, i+1, 1))
			}
			put(b, s, "eu", terms...)
			b.ReportAllocs()
			for i := len(terms); b.Loop(); i++ {
				put(b, s, "eu", ended(i, i+1, 1))
			}
		})
	}
}

// BenchmarkTerms reads one page out of 100,000 terms: the newest hundred, a hundred of one lock among ten, and a range that none
// of the 10,000 terms which the page looks at is in.
func BenchmarkTerms(b *testing.B) {
	s := openStore(b, history.Config{})
	for i := range 100 {
		var terms []lockwatch.Term
		for j := 1000 * i; j < 1000*i+1000; j++ {
			terms = append(terms, ended(j, j+1, 1))
			terms[len(terms)-1].Lock = string(rune('a' + j%10))
		}
		put(b, s, "eu", terms...)
	}
	for name, q := range map[string]history.Query{
		"newest":  {},
		"onelock": {Lock: "c"},
		"none":    {From: ended(0, 200_000, 1).End},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Terms(q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
