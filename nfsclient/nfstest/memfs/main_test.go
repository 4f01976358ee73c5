package memfs

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var root = Cred{}

func mustMake(t testing.TB, fs *FS, c Cred, dir *Inode, name string, o Object) *Inode {
	t.Helper()
	n, _, err := fs.Make(c, dir, name, o)
	if err != nil {
		t.Fatalf("making %s: %v", name, err)
	}
	return n
}

func file(mode uint32) Object { return Object{Kind: Regular, Mode: mode} }

func dir(mode uint32) Object { return Object{Kind: Directory, Mode: mode} }
