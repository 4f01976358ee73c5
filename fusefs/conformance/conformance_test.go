package conformance

import (
	"encoding/json"
	"os"
	"testing"
)

// TestLocal holds the suite itself against a local file system: what fails
// here is wrong in the suite.
//
// As a binary (go test -c) it runs the suite where there is no Go: the
// environment variable CONFORMANCE_DIR names the directory, CONFORMANCE_OPTIONS
// has Options as JSON, and CONFORMANCE_REPORT names a file that gets an Outcome
// as a line of JSON for each case.
func TestLocal(t *testing.T) {
	dir := t.TempDir()
	if d := os.Getenv("CONFORMANCE_DIR"); d != "" {
		var err error
		if dir, err = os.MkdirTemp(d, "conformance"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
	}
	var o Options
	if s := os.Getenv("CONFORMANCE_OPTIONS"); s != "" {
		if err := json.Unmarshal([]byte(s), &o); err != nil {
			t.Fatalf("CONFORMANCE_OPTIONS: %v", err)
		}
	}
	if name := os.Getenv("CONFORMANCE_REPORT"); name != "" {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		enc := json.NewEncoder(f)
		o.Report = func(out Outcome) {
			if err := enc.Encode(out); err != nil {
				t.Error(err)
			}
		}
	}
	Run(t, dir, o)
}

// TestRandomLocal holds the random sequences against a local file system on
// both sides.
func TestRandomLocal(t *testing.T) {
	dir := os.Getenv("CONFORMANCE_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	Random(t, dir)
}
