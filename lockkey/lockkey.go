// Package lockkey is the identity of a PostgreSQL advisory lock and the form pg_locks shows it in.
//
// PostgreSQL has two key spaces that never meet: keys of two int4 values and keys of one bigint (PostgreSQL manual,
// "Advisory Lock Functions"). The system view pg_locks shows both in the columns classid, objid and objsubid (manual,
// "pg_locks"): a pair has objsubid 2 and its values in classid and objid; a bigint has objsubid 1, its high half in classid and
// its low half in objid. Both columns are of type oid, so a negative half shows as its unsigned value.
//
// A Key is a comparable value without pointers; every function here is safe from any goroutine.
package lockkey

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The values of pg_locks.objsubid that tell the two key spaces apart (manual, "pg_locks").
const (
	subidBigint = 1
	subidPair   = 2
)

// Key names one advisory lock within a database. The zero Key names none; see IsZero.
type Key struct {
	classid, objid uint32
	objsubid       uint16
}

// BackgroundLeader returns the key by which a deployment elects its background leader: the pair (1886156915, 1), whose
// first value spells plxs in ASCII.
func BackgroundLeader() Key { return Pair(0x706C7873, 1) }

// Pair returns the key of the two-int4 functions such as pg_try_advisory_lock(int4, int4).
func Pair(class, object int32) Key {
	return Key{classid: uint32(class), objid: uint32(object), objsubid: subidPair}
}

// Bigint returns the key of the one-bigint functions such as pg_try_advisory_lock(bigint).
func Bigint(v int64) Key {
	return Key{classid: uint32(uint64(v) >> 32), objid: uint32(v), objsubid: subidBigint}
}

// FromColumns returns the key that pg_locks shows in a row whose locktype is advisory. It fails when objsubid is neither 1
// nor 2.
func FromColumns(classid, objid uint32, objsubid uint16) (Key, error) {
	if objsubid != subidBigint && objsubid != subidPair {
		return Key{}, fmt.Errorf("lockkey: objsubid %d: an advisory lock has 1 (bigint) or 2 (two int4)", objsubid)
	}
	return Key{classid: classid, objid: objid, objsubid: objsubid}, nil
}

// Columns returns k as pg_locks shows it.
func (k Key) Columns() (classid, objid uint32, objsubid uint16) {
	return k.classid, k.objid, k.objsubid
}

// IsZero reports whether k is the zero Key, which names no lock.
func (k Key) IsZero() bool { return k == Key{} }

// String returns the form that Parse reads: 1886156915/1 for a pair, -7 for a bigint, and nothing for the zero Key.
func (k Key) String() string {
	switch k.objsubid {
	case subidPair:
		return fmt.Sprintf("%d/%d", int32(k.classid), int32(k.objid))
	case subidBigint:
		return strconv.FormatInt(int64(uint64(k.classid)<<32|uint64(k.objid)), 10)
	default:
		return ""
	}
}

// Parse reads a key: two int4 values with a slash between them (1886156915/1), the same with the first spelled as four
// ASCII characters (plxs/1), or one bigint (-7). Four characters that are a number are that number, so 1234/1 is the pair
// (1234, 1). The error names the text and the part that is wrong.
func Parse(text string) (Key, error) {
	class, object, isPair := strings.Cut(text, "/")
	if !isPair {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return Key{}, fmt.Errorf("lockkey: %q is not a key: want class/object or a bigint: %w", text, numberError(err))
		}
		return Bigint(v), nil
	}
	c, err := parseClass(class)
	if err != nil {
		return Key{}, fmt.Errorf("lockkey: class of %q: %w", text, err)
	}
	o, err := strconv.ParseInt(object, 10, 32)
	if err != nil {
		return Key{}, fmt.Errorf("lockkey: object of %q: %w", text, numberError(err))
	}
	return Pair(c, int32(o)), nil
}

// parseClass reads the first half of a pair.
func parseClass(text string) (int32, error) {
	v, err := strconv.ParseInt(text, 10, 32)
	if err == nil {
		return int32(v), nil
	}
	if errors.Is(err, strconv.ErrRange) || !isFourCharacters(text) {
		return 0, fmt.Errorf("%w, and no four printable ASCII characters", numberError(err))
	}
	return int32(text[0])<<24 | int32(text[1])<<16 | int32(text[2])<<8 | int32(text[3]), nil
}

// isFourCharacters reports whether text is four printable ASCII characters other than the space.
func isFourCharacters(text string) bool {
	if len(text) != 4 {
		return false
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// numberError says what strconv found without repeating the function and the text, which the caller names.
func numberError(err error) error {
	if errors.Is(err, strconv.ErrRange) {
		return errors.New("a number out of range")
	}
	return errors.New("not a whole number")
}
