package arch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// module is the path of this module.
const module = "github.com/plexsphere/leader-exporter"

// goPackage is the part of what go list says about a package that is of use here.
type goPackage struct {
	ImportPath string
	Standard   bool
	Imports    []string // of files that are no tests
	Module     *struct{ Path string }
}

// goList runs go list -json with the arguments, at the root of the module.
func goList(t *testing.T, args ...string) []goPackage {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Standard,Imports,Module"}, args...)...)
	cmd.Dir = "../.."
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("decode the output of go list %s: %v", strings.Join(args, " "), err)
		}
		packages = append(packages, p)
	}
}
