package pgtest

import (
	"strings"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

func TestServerOfAnotherMajorThanAskedForFails(t *testing.T) {
	server := Database(t).Server
	version, err := checkedVersion(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("PostgreSQL", version)
	for want, fails := range map[string]bool{"": false, version[:2]: false, "13": true} {
		t.Setenv(MajorVariable, want)
		_, err := checkedVersion(t.Context(), server)
		if (err != nil) != fails || fails && !strings.Contains(err.Error(), MajorVariable) {
			t.Errorf("PostgreSQL %s with %s=%s: %v; want an error: %v", version, MajorVariable, want, err, fails)
		}
	}
}
