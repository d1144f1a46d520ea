package lockkey_test

import (
	"math"
	"testing"

	"github.com/plexsphere/leader-exporter/lockkey"
)

func TestParseReadsEveryForm(t *testing.T) {
	for _, tc := range []struct {
		text           string
		want           lockkey.Key
		printed        string
		classid, objid uint32
		objsubid       uint16
	}{
		{text: "1886156915/1", want: lockkey.BackgroundLeader(), printed: "1886156915/1", classid: 1886156915, objid: 1, objsubid: 2},
		{text: "plxs/1", want: lockkey.BackgroundLeader(), printed: "1886156915/1", classid: 1886156915, objid: 1, objsubid: 2},
		{text: "plxs/-1", want: lockkey.Pair(1886156915, -1), printed: "1886156915/-1", classid: 1886156915, objid: 4294967295, objsubid: 2},
		{text: "-1/-2", want: lockkey.Pair(-1, -2), printed: "-1/-2", classid: 4294967295, objid: 4294967294, objsubid: 2},
		{text: "1234/1", want: lockkey.Pair(1234, 1), printed: "1234/1", classid: 1234, objid: 1, objsubid: 2},
		{text: "2147483647/-2147483648", want: lockkey.Pair(math.MaxInt32, math.MinInt32), printed: "2147483647/-2147483648", classid: 2147483647, objid: 2147483648, objsubid: 2},
		{text: "0/0", want: lockkey.Pair(0, 0), printed: "0/0", objsubid: 2},
		{text: "42", want: lockkey.Bigint(42), printed: "42", objid: 42, objsubid: 1},
		{text: "0", want: lockkey.Bigint(0), printed: "0", objsubid: 1},
		{text: "-7", want: lockkey.Bigint(-7), printed: "-7", classid: 4294967295, objid: 4294967289, objsubid: 1},
		{text: "9223372036854775807", want: lockkey.Bigint(math.MaxInt64), printed: "9223372036854775807", classid: 2147483647, objid: 4294967295, objsubid: 1},
		{text: "-9223372036854775808", want: lockkey.Bigint(math.MinInt64), printed: "-9223372036854775808", classid: 2147483648, objsubid: 1},
	} {
		got, err := lockkey.Parse(tc.text)
		if err != nil || got != tc.want {
			t.Errorf("Parse(%q) = %v, %v; want %v", tc.text, got, err, tc.want)
			continue
		}
		if got.String() != tc.printed {
			t.Errorf("Parse(%q).String() = %q, want %q", tc.text, got.String(), tc.printed)
		}
		classid, objid, objsubid := got.Columns()
		if classid != tc.classid || objid != tc.objid || objsubid != tc.objsubid {
			t.Errorf("Parse(%q).Columns() = %d, %d, %d; want %d, %d, %d",
				tc.text, classid, objid, objsubid, tc.classid, tc.objid, tc.objsubid)
		}
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                     `lockkey: "" is not a key: want class/object or a bigint: not a whole number`,
		"plxs":                 `lockkey: "plxs" is not a key: want class/object or a bigint: not a whole number`,
		"9223372036854775808":  `lockkey: "9223372036854775808" is not a key: want class/object or a bigint: a number out of range`,
		"1886156915/":          `lockkey: object of "1886156915/": not a whole number`,
		"1886156915/1/2":       `lockkey: object of "1886156915/1/2": not a whole number`,
		"1886156915/plxs":      `lockkey: object of "1886156915/plxs": not a whole number`,
		"1/2147483648":         `lockkey: object of "1/2147483648": a number out of range`,
		"2147483648/1":         `lockkey: class of "2147483648/1": a number out of range, and no four printable ASCII characters`,
		"plx/1":                `lockkey: class of "plx/1": not a whole number, and no four printable ASCII characters`,
		"pl s/1":               `lockkey: class of "pl s/1": not a whole number, and no four printable ASCII characters`,
		"plé/1":                `lockkey: class of "plé/1": not a whole number, and no four printable ASCII characters`,
		" 1/1":                 `lockkey: class of " 1/1": not a whole number, and no four printable ASCII characters`,
		"1e3":                  `lockkey: "1e3" is not a key: want class/object or a bigint: not a whole number`,
		"0x706C7873/1":         `lockkey: class of "0x706C7873/1": not a whole number, and no four printable ASCII characters`,
		"-9223372036854775809": `lockkey: "-9223372036854775809" is not a key: want class/object or a bigint: a number out of range`,
	} {
		key, err := lockkey.Parse(text)
		if err == nil || err.Error() != want {
			t.Errorf("Parse(%q) = %v, %v; want the error %s", text, key, err, want)
		}
		if !key.IsZero() {
			t.Errorf("Parse(%q) = %v beside its error, want the zero Key", text, key)
		}
	}
}

func TestBigintOfAPairsHalvesIsAnotherKey(t *testing.T) {
	pair := lockkey.BackgroundLeader()
	bigint := lockkey.Bigint(1886156915<<32 | 1)
	if pair == bigint {
		t.Fatalf("%v and %v are one key; PostgreSQL keeps the two key spaces apart", pair, bigint)
	}
}

func TestFromColumnsRefusesWhatIsNoAdvisoryLock(t *testing.T) {
	for _, objsubid := range []uint16{0, 3, math.MaxUint16} {
		if key, err := lockkey.FromColumns(1, 1, objsubid); err == nil {
			t.Errorf("FromColumns(1, 1, %d) = %v, want an error", objsubid, key)
		}
	}
}

func TestZeroKeyNamesNoLock(t *testing.T) {
	var zero lockkey.Key
	if !zero.IsZero() || zero.String() != "" {
		t.Errorf("zero Key: IsZero %v, String %q; want true and nothing", zero.IsZero(), zero.String())
	}
	if lockkey.Bigint(0).IsZero() || lockkey.Pair(0, 0).IsZero() {
		t.Error("bigint 0 and the pair 0/0 are real keys, IsZero says otherwise")
	}
}

func FuzzParseRoundTrip(f *testing.F) {
	for _, seed := range []string{"1886156915/1", "plxs/1", "-7", "0", "-1/-2", "a/b", "////", "+5", "-0/1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := lockkey.Parse(text)
		if err != nil {
			return
		}
		again, err := lockkey.Parse(key.String())
		if err != nil || again != key {
			t.Fatalf("Parse(%q) = %v, which prints as %q and parses as %v, %v", text, key, key.String(), again, err)
		}
		requireColumnsRoundTrip(t, key)
	})
}

func FuzzColumnsRoundTrip(f *testing.F) {
	f.Add(uint32(1886156915), uint32(1), true)
	f.Add(uint32(math.MaxUint32), uint32(math.MaxUint32-6), false)
	f.Fuzz(func(t *testing.T, classid, objid uint32, pair bool) {
		key := lockkey.Pair(int32(classid), int32(objid))
		if !pair {
			key = lockkey.Bigint(int64(uint64(classid)<<32 | uint64(objid)))
		}
		requireColumnsRoundTrip(t, key)
		if parsed, err := lockkey.Parse(key.String()); err != nil || parsed != key {
			t.Fatalf("Parse(%q) = %v, %v; want the key it was printed from", key.String(), parsed, err)
		}
	})
}

func requireColumnsRoundTrip(t *testing.T, key lockkey.Key) {
	t.Helper()
	back, err := lockkey.FromColumns(key.Columns())
	if err != nil || back != key {
		t.Fatalf("FromColumns of the columns of %v = %v, %v", key, back, err)
	}
}
