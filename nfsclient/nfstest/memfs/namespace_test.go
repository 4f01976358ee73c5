package memfs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestRename(t *testing.T) {
	tests := []struct {
		from, to string
		err      error
		after    []string // names left of the two
	}{
		{"file", "new", nil, []string{"new"}},
		{"file", "file2", nil, []string{"file2"}},
		{"file", "file", nil, []string{"file"}},
		{"file", "hard", nil, []string{"file", "hard"}},
		{"file", "empty", syscall.EISDIR, []string{"file", "empty"}},
		{"empty", "file", syscall.ENOTDIR, []string{"empty", "file"}},
		{"empty", "empty2", nil, []string{"empty2"}},
		{"empty", "full", syscall.ENOTEMPTY, []string{"empty", "full"}},
		{"full", "empty", nil, []string{"empty"}},
		{"full", "full/sub/x", syscall.EINVAL, []string{"full"}},
		{"full/sub", "full", syscall.ENOTEMPTY, []string{"full/sub", "full"}},
		{"none", "x", syscall.ENOENT, nil},
		{"full/sub", "moved", nil, []string{"moved"}},
	}
	for _, tt := range tests {
		t.Run(tt.from+" to "+tt.to, func(t *testing.T) {
			fs := New(Options{})
			f := mustMake(t, fs, root, fs.Root(), "file", file(0o644))
			mustMake(t, fs, root, fs.Root(), "file2", file(0o644))
			mustMake(t, fs, root, fs.Root(), "empty", dir(0o755))
			mustMake(t, fs, root, fs.Root(), "empty2", dir(0o755))
			mustMake(t, fs, root, mustMake(t, fs, root, fs.Root(), "full", dir(0o755)), "sub", dir(0o755))
			if _, err := fs.Link(root, f, fs.Root(), "hard"); err != nil {
				t.Fatal(err)
			}
			d1, n1 := walk(t, fs, tt.from)
			d2, n2 := walk(t, fs, tt.to)
			what, _ := fs.Lookup(root, d1, n1)
			_, _, err := fs.Rename(root, d1, n1, d2, n2)
			if err != tt.err {
				t.Fatalf("%v, want %v", err, tt.err)
			}
			for _, p := range []string{tt.from, tt.to} {
				d, n := walk(t, fs, p)
				if _, err := fs.Lookup(root, d, n); (err == nil) != slices.Contains(tt.after, p) {
					t.Errorf("%s afterwards: %v", p, err)
				}
			}
			if err == nil {
				if got, _ := fs.Lookup(root, d2, n2); got != what {
					t.Error("the new name leads to something else")
				}
			}
			consistent(t, fs)
		})
	}
}

// walk returns the directory of a path and its last name.
func walk(t *testing.T, fs *FS, p string) (*Inode, string) {
	at, name := fs.Root(), ""
	for i, c := range p {
		if c != '/' {
			name += string(c)
			continue
		}
		n, err := fs.Lookup(root, at, name)
		if err != nil {
			t.Fatalf("%s: %v", p[:i], err)
		}
		at, name = n, ""
	}
	return at, name
}

// consistent checks link counts, parents and the table of inodes.
func consistent(t testing.TB, fs *FS) {
	t.Helper()
	links, seen := make(map[*Inode]uint32), map[*Inode]bool{fs.root: true}
	todo := []*Inode{fs.root}
	for len(todo) > 0 {
		d := todo[0]
		todo = todo[1:]
		links[d] += 2
		sub, live := 0, 0
		for _, e := range d.dir.order {
			if e.inode == nil {
				continue
			}
			live++
			if d.dir.byName[e.name] != e {
				t.Errorf("%q is in the order of a directory and not in its names", e.name)
			}
			if e.inode.kind == Directory {
				sub++
				if e.inode.parent != d || seen[e.inode] {
					t.Errorf("directory %q has another parent", e.name)
				}
				todo = append(todo, e.inode)
				links[d]++
			} else {
				links[e.inode]++
			}
			seen[e.inode] = true
		}
		if live != d.dir.live || live != len(d.dir.byName) || sub != d.dir.nsub {
			t.Errorf("%d entries, %d of them directories; counted %d, %d names, %d directories", live, sub, d.dir.live, len(d.dir.byName), d.dir.nsub)
		}
	}
	for n, want := range links {
		if n.nlink != want {
			t.Errorf("inode %d has %d links, want %d", n.ino, n.nlink, want)
		}
	}
	if len(fs.inodes) != len(seen) {
		t.Errorf("%d inodes, %d reachable", len(fs.inodes), len(seen))
	}
}

// While others make and remove names, a listing has every name that was there
// all the time exactly once, however it is cut.
func TestListingWhileChanging(t *testing.T) {
	fs := New(Options{})
	const stay = 3000
	for i := range stay {
		mustMake(t, fs, root, fs.Root(), fmt.Sprintf("stay-%d", i), file(0o644))
		mustMake(t, fs, root, fs.Root(), fmt.Sprintf("go-%d", i), file(0o644))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				_, _ = fs.Remove(root, fs.Root(), fmt.Sprintf("go-%d", r.IntN(stay)))
				_, _, _ = fs.Make(root, fs.Root(), fmt.Sprintf("new-%d-%d", w, i), file(0o644))
				if i > 10 {
					_, _, _ = fs.Rename(root, fs.Root(), fmt.Sprintf("new-%d-%d", w, i-10), fs.Root(), fmt.Sprintf("new-%d-%d", w, i-9))
				}
			}
		}()
	}
	for range 5 {
		seen := make(map[string]int)
		var cookie uint64
		for end := false; !end; {
			var entries []Entry
			var err error
			entries, end, err = fs.ReadDir(root, fs.Root(), cookie, 1+rand.IntN(100), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				seen[e.Name]++
				if e.Cookie <= cookie {
					t.Fatalf("cookie %d behind %d", e.Cookie, cookie)
				}
				cookie = e.Cookie
			}
		}
		for i := range stay {
			if n := seen[fmt.Sprintf("stay-%d", i)]; n != 1 {
				t.Fatalf("stay-%d was listed %d times", i, n)
			}
		}
	}
	close(stop)
	wg.Wait()
	consistent(t, fs)
}

func TestManyNames(t *testing.T) {
	fs := New(Options{})
	const n = 100_000
	for i := range n {
		mustMake(t, fs, root, fs.Root(), fmt.Sprintf("%d", i), file(0o644))
	}
	count, cookie := 0, uint64(0)
	for end := false; !end; {
		var entries []Entry
		entries, end, _ = fs.ReadDir(root, fs.Root(), cookie, 1000, nil)
		count += len(entries)
		cookie = entries[len(entries)-1].Cookie
	}
	if count != n {
		t.Errorf("%d names", count)
	}
	for i := range n {
		if _, err := fs.Remove(root, fs.Root(), fmt.Sprintf("%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(fs.root.dir.order) > 200 {
		t.Errorf("%d places kept for no names", len(fs.root.dir.order))
	}
}

func TestUnlinkedButHeld(t *testing.T) {
	fs := New(Options{})
	n := mustMake(t, fs, root, fs.Root(), "f", file(0o644))
	if err := fs.Hold(n); err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Remove(root, fs.Root(), "f"); err != nil {
		t.Fatal(err)
	}
	if err := fs.Write(root, n, 0, []byte("still here"), true); err != nil {
		t.Error(err)
	}
	if _, err := fs.Get(n.Ino(), n.Gen()); err != nil {
		t.Error(err)
	}
	if n.Attr().Nlink != 0 {
		t.Errorf("%d links", n.Attr().Nlink)
	}
	if _, err := fs.Link(root, n, fs.Root(), "again"); err != syscall.ENOENT {
		t.Errorf("a link to a removed file: %v", err)
	}
	fs.Release(n)
	if _, err := fs.Get(n.Ino(), n.Gen()); err != syscall.ESTALE {
		t.Errorf("after the last hold: %v", err)
	}
	if err := fs.Hold(n); err != syscall.ESTALE {
		t.Errorf("a hold of what is gone: %v", err)
	}
	if fs.acct.used != 0 {
		t.Errorf("%d bytes still in use", fs.acct.used)
	}
}

func TestNames(t *testing.T) {
	fs := New(Options{})
	long := make([]byte, MaxName+1)
	for i := range long {
		long[i] = 'x'
	}
	for name, want := range map[string]error{"": syscall.EINVAL, ".": syscall.EINVAL, "..": syscall.EINVAL,
		"a/b": syscall.EINVAL, "a\x00b": syscall.EINVAL, string(long): syscall.ENAMETOOLONG,
		string(long[1:]): nil, "\xff\xfe": nil, "...": nil} {
		if _, _, err := fs.Make(root, fs.Root(), name, file(0o644)); err != want {
			t.Errorf("%.10q: %v, want %v", name, err, want)
		}
	}
}

func TestTimes(t *testing.T) {
	now := time.Unix(1000, 0)
	fs := New(Options{Now: func() time.Time { return now }})
	d := mustMake(t, fs, root, fs.Root(), "d", dir(0o755))
	n := mustMake(t, fs, root, d, "f", file(0o644))
	step := func(what string, do func() error, node *Inode, a, m, c bool) {
		t.Helper()
		before := node.Attr()
		now = now.Add(time.Second)
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		after := node.Attr()
		if after.Atime.Equal(now) != a || after.Mtime.Equal(now) != m || after.Ctime.Equal(now) != c {
			t.Errorf("%s: %v %v %v at %v", what, after.Atime, after.Mtime, after.Ctime, now)
		}
		if (after.Change != before.Change) != c {
			t.Errorf("%s: change %d, was %d", what, after.Change, before.Change)
		}
	}
	size, mode := int64(3), uint32(0o600)
	old := time.Unix(5, 5)
	step("write", func() error { return fs.Write(root, n, 0, []byte("abc"), true) }, n, false, true, true)
	step("read", func() error { _, _, err := fs.Read(n, 0, make([]byte, 1)); return err }, n, true, false, false)
	step("chmod", func() error { return fs.SetAttr(root, n, SetAttr{Mode: &mode}) }, n, false, false, true)
	step("truncate", func() error { return fs.SetAttr(root, n, SetAttr{Size: &size}) }, n, false, true, true)
	step("utimes", func() error { return fs.SetAttr(root, n, SetAttr{Mtime: &old, AtimeNow: true}) }, n, true, false, true)
	step("link", func() error { _, err := fs.Link(root, n, d, "g"); return err }, n, false, false, true)
	step("link", func() error { _, err := fs.Link(root, n, d, "h"); return err }, d, false, true, true)
	step("rename", func() error { _, _, err := fs.Rename(root, d, "g", d, "i"); return err }, d, false, true, true)
	step("remove", func() error { _, err := fs.Remove(root, d, "i"); return err }, n, false, false, true)
	step("list", func() error { _, _, err := fs.ReadDir(root, d, 0, 10, nil); return err }, d, true, false, false)
	step("lookup", func() error { _, err := fs.Lookup(root, d, "f"); return err }, d, false, false, false)
	step("xattr", func() error { _, err := fs.SetXattr(root, n, "x", nil, XattrEither); return err }, n, false, false, true)
	if !n.Attr().Mtime.Equal(old) {
		t.Errorf("mtime %v", n.Attr().Mtime)
	}
}
