package conformance

import (
	"os"
	"testing"
)

// TestLocal holds the suite itself against a local file system: what fails
// here is wrong in the suite.
func TestLocal(t *testing.T) {
	dir := t.TempDir()
	if d := os.Getenv("CONFORMANCE_DIR"); d != "" {
		var err error
		if dir, err = os.MkdirTemp(d, "conformance"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
	}
	Run(t, dir, Options{})
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
