package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the folder of the module.
const root = "../.."

// idsOf returns the ids of the rules and cases that the contract states, each of which begins a list item: "- **R1 Cadence.** …" or
// "- **L1** …".
func idsOf(t *testing.T, document string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]bool)
	for _, match := range regexp.MustCompile(`(?m)^- \*\*([A-Z]\d+)[ *]`).FindAllStringSubmatch(string(text), -1) {
		if ids[match[1]] {
			t.Errorf("%s states %s twice", document, match[1])
		}
		ids[match[1]] = true
	}
	return ids
}

// citations returns for each id of those letters the test files under the folders that cite it, in the comment that begins a
// test: "// R2, L9: what it shows".
func citations(t *testing.T, letters string, folders ...string) map[string][]string {
	t.Helper()
	cited := make(map[string][]string)
	citation := regexp.MustCompile(`(?m)^// ((?:[A-Z]\d+, )*[A-Z]\d+): `)
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, match := range citation.FindAllStringSubmatch(string(source), -1) {
				for id := range strings.SplitSeq(match[1], ", ") {
					if strings.Contains(letters, id[:1]) {
						cited[id] = append(cited[id], path)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return cited
}

func TestEveryRuleAndCaseOfAContractHasATest(t *testing.T) {
	for _, contract := range []struct {
		document, letters string
		folders           []string
		some              []string // ids that it states
	}{
		{"docs/leader.md", "RL", []string{"leader"}, []string{"R1", "L1"}},
		{"docs/loops.md", "WTL", []string{"worker", "loop", "cmd/plexsphere-demo"}, []string{"W1", "T1", "L17"}},
	} {
		ids, cited := idsOf(t, filepath.Join(root, contract.document)), citations(t, contract.letters, contract.folders...)
		for _, id := range contract.some {
			if !ids[id] {
				t.Fatalf("%s states no %s that this test can read", contract.document, id)
			}
		}
		for id := range ids {
			if len(cited[id]) == 0 {
				t.Errorf("no test under %q cites %s of %s", contract.folders, id, contract.document)
			}
		}
		for id, files := range cited {
			if !ids[id] {
				t.Errorf("%v cite %s, which %s does not state", files, id, contract.document)
			}
		}
	}
}
