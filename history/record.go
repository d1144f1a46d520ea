package history

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/plexsphere/leader-exporter/lockkey"
	"github.com/plexsphere/leader-exporter/lockwatch"
)

// key is what tells one term from all others, and its place among them.
type key struct {
	start                 time.Time
	target, datname, lock []byte
	pid                   uint32
}

// keyOf returns the key of a term in its form on disk. The start of the term must fit in 64 bits of nanoseconds: the years 1678
// to 2262.
func keyOf(target string, t lockwatch.Term) ([]byte, error) {
	start := t.Holder.TermStart
	if start.Before(earliest()) || start.After(latest()) {
		return nil, fmt.Errorf("a term that starts at %v", start)
	}
	k := appendTime(nil, start)
	for _, name := range []string{target, t.Datname, t.Lock} {
		k = appendName(k, name)
	}
	return binary.BigEndian.AppendUint32(k, t.Holder.PID), nil
}

// The sizes of a key's first and last part, in bytes.
const timeSize, pidSize = 8, 4

// parseKey is the reverse of keyOf. The names are parts of k. It reports false where k is no key.
func parseKey(k []byte) (_ key, ok bool) {
	if len(k) < timeSize+pidSize {
		return key{}, false
	}
	nanoseconds := int64(binary.BigEndian.Uint64(k) ^ 1<<63)
	parsed := key{start: time.Unix(0, nanoseconds).UTC()}
	k = k[timeSize:]
	for _, name := range []*[]byte{&parsed.target, &parsed.datname, &parsed.lock} {
		if *name, k, ok = cutName(k); !ok {
			return key{}, false
		}
	}
	if len(k) != pidSize {
		return key{}, false
	}
	parsed.pid = binary.BigEndian.Uint32(k)
	return parsed, true
}

// openKey returns the key in the bucket open of the term with key k.
func openKey(target string, k []byte) []byte { return append(appendName(nil, target), k...) }

// appendName appends a name, with its length before it so that no name can look like the end of another.
func appendName(b []byte, name string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(name))), name...)
}

// cutName is the reverse of appendName. The name and the rest are parts of b. It reports false where b does not begin with a name.
func cutName(b []byte) (name, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, nil, false
	}
	return b[n : n+int(size)], b[n+int(size):], true
}

// appendTime appends t as eight bytes that sort as times do; one that does not fit becomes the first or last that does.
func appendTime(b []byte, t time.Time) []byte {
	switch {
	case t.Before(earliest()):
		t = earliest()
	case t.After(latest()):
		t = latest()
	}
	return binary.BigEndian.AppendUint64(b, uint64(t.UnixNano())^1<<63)
}

// earliest and latest bound the times that a key can have.
func earliest() time.Time { return time.Unix(0, math.MinInt64) }
func latest() time.Time   { return time.Unix(0, math.MaxInt64) }

// value is the part of a term that is not in its key.
type value struct {
	After           time.Time `json:"after,omitzero"`
	LastSeen        time.Time `json:"last_seen,omitzero"`
	End             time.Time `json:"end,omitzero"`
	ApplicationName string    `json:"application_name,omitempty"`
	Usename         string    `json:"usename,omitempty"`
	ClientAddr      string    `json:"client_addr,omitempty"`
	BackendStart    time.Time `json:"backend_start,omitzero"`
	Foreign         bool      `json:"foreign,omitempty"`
	Visible         bool      `json:"visible,omitempty"`

	// Absent in files of earlier versions.
	Key              string    `json:"key,omitempty"` // as of lockkey.Parse
	SystemIdentifier int64     `json:"system_identifier,omitempty"`
	ServerStart      time.Time `json:"server_start,omitzero"`
}

// encode returns the value of a term in its form on disk.
func encode(t lockwatch.Term) ([]byte, error) {
	h := t.Holder
	return json.Marshal(value{
		After: t.After.UTC(), LastSeen: t.LastSeen.UTC(), End: t.End.UTC(),
		ApplicationName: h.ApplicationName, Usename: h.Usename, ClientAddr: h.ClientAddr, BackendStart: h.BackendStart.UTC(),
		Foreign: h.Foreign, Visible: h.Visible,
		Key: t.Key.String(), SystemIdentifier: t.Server.SystemIdentifier, ServerStart: t.Server.Started.UTC(),
	})
}

// decode returns the term of a key and a value; it keeps no part of either.
func decode(k key, encoded []byte) (lockwatch.Term, error) {
	var v value
	if err := json.Unmarshal(encoded, &v); err != nil {
		return lockwatch.Term{}, fmt.Errorf("it is damaged: decode the term of %v: %w", k.start, err)
	}
	var lockKey lockkey.Key
	if v.Key != "" {
		var err error
		if lockKey, err = lockkey.Parse(v.Key); err != nil {
			return lockwatch.Term{}, fmt.Errorf("it is damaged: decode the term of %v: %w", k.start, err)
		}
	}
	return lockwatch.Term{
		Datname: string(k.datname), Lock: string(k.lock), Key: lockKey, After: v.After, LastSeen: v.LastSeen, End: v.End,
		Server: lockwatch.Server{SystemIdentifier: v.SystemIdentifier, Started: v.ServerStart},
		Holder: lockwatch.Holder{
			PID: k.pid, TermStart: k.start, ApplicationName: v.ApplicationName, Usename: v.Usename, ClientAddr: v.ClientAddr,
			BackendStart: v.BackendStart, Foreign: v.Foreign, Visible: v.Visible,
			HeartbeatAge: -1, // not known: 0 would say that it is alive
		},
	}, nil
}
