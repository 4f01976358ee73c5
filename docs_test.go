package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"nfsrdma-fuse/fusefs/conformance"
)

// TestSemanticsNamesRealCases: docs/semantics.md promises nothing with the name
// of a case or test that does not exist.
func TestSemanticsNamesRealCases(t *testing.T) {
	page, err := os.ReadFile("docs/semantics.md")
	if err != nil {
		t.Fatal(err)
	}
	known := testNames(t)
	for _, c := range conformance.Cases() {
		known[c.Name] = true
	}
	named := regexp.MustCompile("`([A-Z][a-z]+[A-Z0-9][A-Za-z0-9]+|Sparse|Permissions|Groups|Access)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 20 {
		t.Fatalf("only %d names of cases found", len(named))
	}
	for _, n := range named {
		if !known[n[1]] {
			t.Errorf("docs/semantics.md names %s, which is no case", n[1])
		}
	}
}

// testNames returns the names of the tests in the repository.
func testNames(t *testing.T) map[string]bool {
	names := make(map[string]bool)
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)[A-Za-z0-9]+)\(`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
