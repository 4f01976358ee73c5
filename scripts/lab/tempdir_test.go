package lab

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTempDir(t *testing.T) {
	parent := t.TempDir()
	mine, err := newTempDir(parent, "vm")
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(parent, tempPrefix+"vm-left")
	other := filepath.Join(parent, "somebody's")
	for _, dir := range []string{left, other} {
		if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	exists := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	removeStale(parent, time.Now())
	if !exists(left) {
		t.Error("a young directory was removed, which might be about to be locked")
	}
	removeStale(parent, time.Now().Add(2*staleAfter))
	if exists(left) {
		t.Error("a directory that nobody has locked stays")
	}
	if !exists(mine.path) {
		t.Error("a directory in use was removed")
	}
	if !exists(other) {
		t.Error("a directory of somebody else's was removed")
	}
	if err := mine.remove(); err != nil || exists(mine.path) {
		t.Errorf("remove: %v", err)
	}
	if err := mine.remove(); err != nil {
		t.Errorf("second remove: %v", err)
	}
}
