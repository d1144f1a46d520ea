package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// idsOf returns the ids of the rules and cases that the contract states, each of which begins a list item: "- **R1 Cadence.** …" or
// "- **L1** …".
func idsOf(t *testing.T, document string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]bool)
	for _, match := range regexp.MustCompile(`(?m)^- \*\*([RL]\d+)[ *]`).FindAllStringSubmatch(string(text), -1) {
		if ids[match[1]] {
			t.Errorf("%s states %s twice", document, match[1])
		}
		ids[match[1]] = true
	}
	return ids
}

// citations returns for each id the test files under the folder that cite it, in the comment that begins a test:
// "// R2, L9: what it shows".
func citations(t *testing.T, folder string) map[string][]string {
	t.Helper()
	cited := make(map[string][]string)
	citation := regexp.MustCompile(`(?m)^// ((?:[A-Z]\d+, )*[A-Z]\d+): `)
	err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range citation.FindAllStringSubmatch(string(source), -1) {
			for id := range strings.SplitSeq(match[1], ", ") {
				if strings.HasPrefix(id, "R") || strings.HasPrefix(id, "L") {
					cited[id] = append(cited[id], path)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return cited
}

func TestEveryRuleAndCaseOfTheContractHasATest(t *testing.T) {
	const document = "../../docs/leader.md"
	ids, cited := idsOf(t, document), citations(t, "../../leader")
	if !ids["R1"] || !ids["L1"] {
		t.Fatalf("%s states no rules or no cases that this test can read", document)
	}
	for id := range ids {
		if len(cited[id]) == 0 {
			t.Errorf("no test under leader/ cites %s of %s", id, document)
		}
	}
	for id, files := range cited {
		if !ids[id] {
			t.Errorf("%v cite %s, which %s does not state", files, id, document)
		}
	}
}
