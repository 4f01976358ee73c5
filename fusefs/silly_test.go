package fusefs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// unmounted returns a bridge to a local directory, without a kernel.
func unmounted(t *testing.T) (*bridge, *localFS, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: files are opened by filehandle")
	}
	dir := t.TempDir()
	l, err := newLocalFS(dir)
	if err != nil {
		t.Fatal(err)
	}
	root, attrs, err := l.rootAttrs()
	if err != nil {
		t.Fatal(err)
	}
	b := newBridge(l, root, attrs, Options{}.withDefaults())
	t.Cleanup(func() {
		b.closeAll(context.Background())
		if n := len(b.sillies.list()); n != 0 {
			t.Errorf("%d silly names are left", n)
		}
		if n := l.open.Load(); n != 0 {
			t.Errorf("%d files are open at the server", n)
		}
		l.close()
	})
	return b, l, dir
}

// sillyNames lists the silly names in a directory.
func sillyNames(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(dir + "/.nfs*")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var rootHeader = fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID, Caller: fuse.Caller{Pid: uint32(os.Getpid())}}

// makeFile makes a file through the bridge, open if keep is set.
func makeFile(t *testing.T, b *bridge, name string, keep bool) (id, fh uint64) {
	t.Helper()
	var out fuse.CreateOut
	if s := b.Create(nil, &fuse.CreateIn{InHeader: rootHeader, Flags: unix.O_RDWR, Mode: 0o644}, name, &out); !s.Ok() {
		t.Fatalf("create %q: %v", name, s)
	}
	if !keep {
		b.Release(nil, &fuse.ReleaseIn{Fh: out.Fh})
	}
	return out.NodeId, out.Fh
}

func rename(b *bridge, from, to string) fuse.Status {
	return b.Rename(nil, &fuse.RenameIn{InHeader: rootHeader, Newdir: fuse.FUSE_ROOT_ID}, from, to)
}

func TestSillyRename(t *testing.T) {
	b, _, dir := unmounted(t)
	_, fh := makeFile(t, b, "file", true)
	if s := b.Unlink(nil, &rootHeader, "file"); !s.Ok() {
		t.Fatalf("unlink: %v", s)
	}
	left := sillyNames(t, dir)
	if len(left) != 1 || len(filepath.Base(left[0])) != len(".nfs")+24 {
		t.Fatalf("silly names %v, expected one", left)
	}
	b.Release(nil, &fuse.ReleaseIn{Fh: fh})
	if left := sillyNames(t, dir); len(left) != 0 {
		t.Errorf("%v are left after the close", left)
	}
}

func TestSillyNameItselfIsKept(t *testing.T) {
	b, _, dir := unmounted(t)
	_, fh := makeFile(t, b, "file", true)
	b.Unlink(nil, &rootHeader, "file")
	name := filepath.Base(sillyNames(t, dir)[0])
	if s := b.Lookup(nil, &rootHeader, name, &fuse.EntryOut{}); !s.Ok() {
		t.Fatalf("lookup of %q: %v", name, s)
	}
	if s := b.Unlink(nil, &rootHeader, name); s != fuse.EBUSY {
		t.Errorf("unlink of the silly name: %v, expected EBUSY", s)
	}
	b.Release(nil, &fuse.ReleaseIn{Fh: fh})
	if left := sillyNames(t, dir); len(left) != 0 {
		t.Errorf("%v are left after the close", left)
	}
}

func TestClosedFileIsRemoved(t *testing.T) {
	b, _, dir := unmounted(t)
	makeFile(t, b, "file", false)
	if s := b.Unlink(nil, &rootHeader, "file"); !s.Ok() {
		t.Fatalf("unlink: %v", s)
	}
	if all, _ := os.ReadDir(dir); len(all) != 0 || b.stats.silly.Load() != 0 {
		t.Errorf("%v are left, %d silly renames", all, b.stats.silly.Load())
	}
}

// TestFoundFileIsKept: a file that another thread has just looked up stays for
// the open that follows, and goes if none does.
func TestFoundFileIsKept(t *testing.T) { synctest.Test(t, testFoundFileIsKept) }

func testFoundFileIsKept(t *testing.T) {
	b, _, dir := unmounted(t)
	for _, opens := range []bool{true, false} {
		id, _ := makeFile(t, b, "file", false)
		other := rootHeader
		other.Pid = 1
		if s := b.Lookup(nil, &other, "file", &fuse.EntryOut{}); !s.Ok() {
			t.Fatalf("lookup: %v", s)
		}
		if s := b.Unlink(nil, &rootHeader, "file"); !s.Ok() {
			t.Fatalf("unlink: %v", s)
		}
		var out fuse.OpenOut
		if opens {
			if s := b.Open(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: id}, Flags: unix.O_RDONLY}, &out); !s.Ok() {
				t.Errorf("open of a file that was removed just now: %v", s)
			}
		}
		b.expiring.Wait()
		left := sillyNames(t, dir)
		if (len(left) == 1) != opens {
			t.Errorf("opened: %v; silly names when the time was over: %v", opens, left)
		}
		if opens {
			b.Release(nil, &fuse.ReleaseIn{Fh: out.Fh})
		}
		if left := sillyNames(t, dir); len(left) != 0 {
			t.Errorf("%v are left", left)
		}
	}
}

// TestReplaceOpenFile: the name that is replaced is there at every moment, and
// a rename that fails leaves everything as it was.
func TestReplaceOpenFile(t *testing.T) {
	b, l, dir := unmounted(t)
	_, fh := makeFile(t, b, "target", true)
	makeFile(t, b, "new", false)
	var ops []string
	var mu sync.Mutex
	fail := true
	l.setHook(func(_ context.Context, op string) error {
		mu.Lock()
		defer mu.Unlock()
		ops = append(ops, op)
		if op == "RENAME" && fail {
			return unix.EACCES
		}
		return nil
	})
	if s := rename(b, "new", "target"); s != fuse.EACCES {
		t.Errorf("rename: %v, expected EACCES", s)
	}
	if left := sillyNames(t, dir); len(left) != 0 {
		t.Errorf("%v are left after a rename that failed", left)
	}
	if got := strings.Join(ops, " "); got != "LINK RENAME REMOVE" {
		t.Errorf("operations %s", got)
	}
	fail, ops = false, nil
	if s := rename(b, "new", "target"); !s.Ok() {
		t.Errorf("rename: %v", s)
	}
	if got := strings.Join(ops, " "); got != "LINK RENAME" {
		t.Errorf("operations %s", got)
	}
	if left := sillyNames(t, dir); len(left) != 1 {
		t.Errorf("silly names %v, expected one", left)
	}
	l.setHook(nil)
	b.Release(nil, &fuse.ReleaseIn{Fh: fh})
	if all, _ := os.ReadDir(dir); len(all) != 1 || all[0].Name() != "target" {
		t.Errorf("left over: %v, expected the target", all)
	}
}

// TestReplaceWithoutLinks: a server without links has the file renamed out of
// the way, and back when the rename fails.
func TestReplaceWithoutLinks(t *testing.T) {
	b, l, dir := unmounted(t)
	_, fh := makeFile(t, b, "target", true)
	makeFile(t, b, "new", false)
	renames := 0
	l.setHook(func(_ context.Context, op string) error {
		switch op {
		case "LINK":
			return unix.EOPNOTSUPP
		case "RENAME":
			if renames++; renames == 2 {
				return unix.ENOSPC
			}
		}
		return nil
	})
	if s := rename(b, "new", "target"); s != fuse.Status(unix.ENOSPC) {
		t.Errorf("rename: %v, expected ENOSPC", s)
	}
	if _, err := os.Stat(dir + "/target"); err != nil || len(sillyNames(t, dir)) != 0 {
		t.Errorf("after a rename that failed: %v, %v", err, sillyNames(t, dir))
	}
	if s := rename(b, "new", "target"); !s.Ok() {
		t.Errorf("rename: %v", s)
	}
	b.Release(nil, &fuse.ReleaseIn{Fh: fh})
	if left := sillyNames(t, dir); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

// TestRmdirWaitsForCloses: a directory whose removed files are being closed can
// be removed.
func TestRmdirWaitsForCloses(t *testing.T) {
	b, l, _ := unmounted(t)
	var dir fuse.EntryOut
	if s := b.Mkdir(nil, &fuse.MkdirIn{InHeader: rootHeader, Mode: 0o755}, "dir", &dir); !s.Ok() {
		t.Fatalf("mkdir: %v", s)
	}
	inDir := rootHeader
	inDir.NodeId = dir.NodeId
	var out fuse.CreateOut
	if s := b.Create(nil, &fuse.CreateIn{InHeader: inDir, Flags: unix.O_RDWR, Mode: 0o644}, "file", &out); !s.Ok() {
		t.Fatalf("create: %v", s)
	}
	if s := b.Unlink(nil, &inDir, "file"); !s.Ok() {
		t.Fatalf("unlink: %v", s)
	}
	removes := make(chan struct{}, 10)
	l.setHook(func(_ context.Context, op string) error {
		if op == "REMOVE" {
			removes <- struct{}{}
		}
		return nil
	})
	closed := make(chan struct{})
	go func() {
		<-removes // the first try
		b.Release(nil, &fuse.ReleaseIn{Fh: out.Fh})
		close(closed)
	}()
	if s := b.Rmdir(nil, &rootHeader, "dir"); !s.Ok() {
		t.Errorf("rmdir while the last file is closed: %v", s)
	}
	<-closed
}

// TestNames: lookups wait for changes, changes know of lookups.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNames()
		d := dentry{1, "x"}
		ctx := context.Background()
		endLookup, err := n.lookup(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		looked, endChange, err := n.change(ctx, d)
		if err != nil || !looked {
			t.Fatalf("change during a lookup: looked %v, %v", looked, err)
		}
		endLookup()
		began := make(chan func())
		go func() {
			end, err := n.lookup(ctx, d)
			if err != nil {
				t.Error(err)
			}
			began <- end
		}()
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := n.lookup(limited, d); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("lookup during a change: %v, expected that it waits", err)
		}
		if _, _, err := n.change(limited, d); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("change during a change: %v, expected that it waits", err)
		}
		if end, err := n.lookup(limited, dentry{1, "y"}); err != nil {
			t.Errorf("lookup of another name: %v", err)
		} else {
			end()
		}
		endChange()
		(<-began)()
		if looked, end, err := n.change(ctx, d); looked || err != nil {
			t.Errorf("change without a lookup: looked %v, %v", looked, err)
		} else {
			end()
		}
		if len(n.busy) != 0 {
			t.Errorf("%d names are left", len(n.busy))
		}
	})
}

// TestSillyNamesAreHidden: a removed file that is open is not listed on the mount
// that has it open, whatever else is in the directory, and another client sees
// its hidden name until it is closed.
func TestSillyNamesAreHidden(t *testing.T) {
	p := mountPair(t, Options{})
	p.sh(t, `
		mkdir "$1/d"
		for i in 1 2 3; do echo $i >"$1/d/f$i"; done
		exec 3<"$1/d/f1" 4<"$1/d/f2" 5<"$1/d/f3"
		rm "$1/d/f1" "$1/d/f3"
		test "$(ls -A "$1/d")" = f2
		test "$(ls -A "$2/d" | wc -l)" = 3
		rm "$1/d/f2"
		test -z "$(ls -A "$1/d")"
		test "$(cat <&3; cat <&4; cat <&5)" = "$(printf '1\n2\n3')"
		exec 3<&- 4<&- 5<&-
		rm -r "$1/d"
		test ! -e "$1/d"`)
}
