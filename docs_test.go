package main

import (
	"os"
	"regexp"
	"testing"

	"nfsrdma-fuse/fusefs/conformance"
)

// TestSemanticsNamesRealCases: docs/semantics.md promises nothing with the name
// of a case that does not exist.
func TestSemanticsNamesRealCases(t *testing.T) {
	page, err := os.ReadFile("docs/semantics.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"TestHostileServerLater": true, "TestRandomNFS": true}
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
