// Package history keeps terms on disk.
//
// A Store is one bbolt file, or the same file in memory. Its buckets:
//
//	leader-exporter-history   "format" → the version of what follows, in decimal
//	terms                     start, target, datname, lock, pid → the rest of the term, in JSON; its sequence is their number
//	open                      target, key in terms → nothing, for each term that has no end
//
// A key begins with the term's start as eight bytes that sort as time does, so reading newest first is a walk backwards. All
// else in a key follows, so that names alone decide whether a term is read; each name has its length before it.
//
// # Invariants
//
//   - I1: a term that Put has returned nil for is in the file, whatever kills the process a moment later. It leaves by Expire
//     or by Config.MaxTerms alone.
//   - I2: a term has one key for life, so a walk from page to page meets each term that was there at its start once, unless
//     the term is deleted meanwhile.
//   - I3: open names the terms without an end, and no others.
//   - I4: a damaged file gives an error that names it, and not a panic.
//
// # Concurrency
//
// Every method is safe from any goroutine. Writers wait for each other; readers wait for nobody, except for the moment in which
// the file is mapped again because it has grown. One process at a time may write; while none does, any number may read.
//
// # What this does not guarantee
//
// Damage is noticed where it is met. bbolt has checksums for its two first pages alone: bytes that change inside a term can
// still be a term, and a page that points to itself can end the process by a stack overflow, which nothing recovers from. A
// file that another program cuts while it is open gives errors, but not if it loses its first two pages. Power loss is left to bbolt, the
// file system and a disk that does not lie about its flushes; tests kill the process, not the machine.
//
// The file does not shrink: space of deleted terms is used again. Bytes of the holder's names that are not UTF-8 come back as
// U+FFFD. Holder.HeartbeatAge is not kept, and comes back as not known.
package history
