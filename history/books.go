package history

import (
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/plexsphere/leader-exporter/lockwatch"
)

// books are the buckets of one transaction.
type books struct{ terms, open *bbolt.Bucket }

func booksOf(tx *bbolt.Tx) books {
	return books{terms: tx.Bucket([]byte(termsBucket)), open: tx.Bucket([]byte(openBucket))}
}

// put inserts a term, or updates it.
func (b books) put(target string, t lockwatch.Term) error {
	k, err := keyOf(target, t)
	if err != nil {
		return err
	}
	encoded, err := encode(t)
	if err != nil {
		return err
	}
	if b.terms.Get(k) == nil {
		if err := b.count(1); err != nil {
			return err
		}
	}
	if err := b.terms.Put(k, encoded); err != nil {
		return err
	}
	if t.End.IsZero() {
		return b.open.Put(openKey(target, k), []byte{}) // not nil, which Get says of a key that is not there
	}
	return b.open.Delete(openKey(target, k))
}

// remove deletes the terms with these keys, which are no parts of the file.
func (b books) remove(keys ...[]byte) error {
	for _, k := range keys {
		parsed, ok := parseKey(k)
		if !ok {
			return errBadKey(k)
		}
		if err := b.terms.Delete(k); err != nil {
			return err
		}
		if err := b.open.Delete(openKey(string(parsed.target), k)); err != nil {
			return err
		}
	}
	return b.count(-len(keys))
}

// count adds n to the number of terms. It is the sequence of its bucket, since bbolt can else count keys only by reading all.
func (b books) count(n int) error {
	return b.terms.SetSequence(uint64(b.len() + n))
}

// len returns the number of terms.
func (b books) len() int { return int(b.terms.Sequence()) }

func errBadKey(k []byte) error { return fmt.Errorf("it is damaged: a term has the key %x", k) }
