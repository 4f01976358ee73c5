package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// Random makes random sequences of system calls below dir and, the same, on a
// local file system, and compares every result and in the end the trees. A
// failure is shrunk to the shortest sequence that shows it, and is printed with
// the seed that repeats it (-rapid.seed). -rapid.checks is the number of
// sequences (100 unless given), each of some 30 calls (-rapid.steps).
//
// What NFS cannot do as a local file system does is left out: an open file that
// was removed keeps a hidden name (".nfs…"), so those are closed before their
// directory is removed, and their link counts are not compared; and an open
// directory ends with its removal.
func Random(t *testing.T, dir string) {
	local := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		name := fmt.Sprintf("random-%d", n)
		p := &pair{T: rt, roots: [2]string{filepath.Join(local, name), filepath.Join(dir, name)}}
		for _, root := range p.roots {
			if err := os.MkdirAll(root, 0o755); err != nil {
				rt.Fatal(err)
			}
		}
		defer func() {
			for len(p.fds) > 0 {
				p.closeAt(0)
			}
			for _, root := range p.roots {
				if err := os.RemoveAll(root); err != nil {
					t.Error(err) // rt may be about to give up already
				}
			}
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"open": p.open, "close": p.close, "write": p.write, "pwrite": p.pwrite, "pread": p.pread,
			"ftruncate": p.ftruncate, "fsync": p.fsync, "fstat": p.fstat, "truncate": p.truncate,
			"mkdir": p.mkdir, "rmdir": p.rmdir, "unlink": p.unlink, "rename": p.rename, "link": p.link,
			"symlink": p.symlink, "readlink": p.readlink, "lstat": p.lstat, "chmod": p.chmod,
			"utimes": p.utimes, "readdir": p.readdir, "content": p.content,
		})
		p.sameTrees()
	})
}

// pair is a directory on a local file system, the model, and its twin on the
// one under test.
type pair struct {
	*rapid.T
	roots [2]string
	fds   [][2]int
}

// both makes a call on either side; the results must agree.
func (p *pair) both(t *rapid.T, what string, call func(side int) (any, error)) error {
	var got [2]any
	var errs [2]error
	for side := range 2 {
		got[side], errs[side] = call(side)
		var errno unix.Errno
		if errs[side] != nil && !errors.As(errs[side], &errno) {
			t.Fatalf("%s: %v", what, errs[side])
		} else if errs[side] != nil {
			errs[side] = errno
		}
	}
	if errs[0] != errs[1] {
		t.Fatalf("%s: locally %v, here %v", what, errs[0], errs[1])
	}
	if errs[0] == nil && !reflect.DeepEqual(got[0], got[1]) {
		t.Fatalf("%s: locally %v, here %v", what, got[0], got[1])
	}
	return errs[0]
}

var (
	randomNames  = rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "d/a", "d/b", "d/e", "d/e/a", "d/e/c", "e/b"})
	randomOffset = rapid.OneOf(rapid.Int64Range(0, 300), rapid.Int64Range(0, 20_000), rapid.SampledFrom([]int64{4095, 4096, 4097, 1 << 33}))
	randomLength = rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, 9000))
)

func (p *pair) path(t *rapid.T, label string) func(side int) string {
	name := randomNames.Draw(t, label)
	return func(side int) string { return filepath.Join(p.roots[side], name) }
}

// fd draws an open file.
func (p *pair) fd(t *rapid.T) [2]int {
	if len(p.fds) == 0 {
		t.Skip("nothing is open")
	}
	return p.fds[rapid.IntRange(0, len(p.fds)-1).Draw(t, "file")]
}

func (p *pair) open(t *rapid.T) {
	if len(p.fds) >= 6 {
		t.Skip("enough is open")
	}
	path := p.path(t, "path")
	flags := rapid.SampledFrom([]int{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR, unix.O_RDWR}).Draw(t, "access")
	for _, f := range []struct {
		name string
		bit  int
	}{{"creat", unix.O_CREAT}, {"excl", unix.O_EXCL}, {"trunc", unix.O_TRUNC}, {"append", unix.O_APPEND}, {"nofollow", unix.O_NOFOLLOW}} {
		if rapid.Bool().Draw(t, f.name) {
			flags |= f.bit
		}
	}
	if flags&unix.O_CREAT == 0 {
		flags &^= unix.O_EXCL // undefined otherwise
	}
	if flags&unix.O_ACCMODE == unix.O_RDONLY {
		flags &^= unix.O_TRUNC // likewise
	}
	mode := rapid.SampledFrom([]uint32{0o644, 0o600, 0o777}).Draw(t, "mode")
	var fd [2]int
	if p.both(t, "open", func(side int) (_ any, err error) {
		fd[side], err = unix.Open(path(side), flags|unix.O_CLOEXEC, mode)
		return nil, err
	}) == nil {
		p.fds = append(p.fds, fd)
	}
}

func (p *pair) closeAt(i int) {
	for side := range 2 {
		if err := unix.Close(p.fds[i][side]); err != nil {
			p.Errorf("close: %v", err)
		}
	}
	p.fds = slices.Delete(p.fds, i, i+1)
}

func (p *pair) close(t *rapid.T) {
	if len(p.fds) == 0 {
		t.Skip("nothing is open")
	}
	p.closeAt(rapid.IntRange(0, len(p.fds)-1).Draw(t, "file"))
}

func (p *pair) data(t *rapid.T) []byte {
	return bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, randomLength.Draw(t, "length"))
}

func (p *pair) write(t *rapid.T) {
	fd, data := p.fd(t), p.data(t)
	_ = p.both(t, "write", func(side int) (any, error) { return unix.Write(fd[side], data) })
}

func (p *pair) pwrite(t *rapid.T) {
	fd, data, off := p.fd(t), p.data(t), randomOffset.Draw(t, "offset")
	_ = p.both(t, "pwrite", func(side int) (any, error) { return unix.Pwrite(fd[side], data, off) })
}

func (p *pair) pread(t *rapid.T) {
	fd, n, off := p.fd(t), randomLength.Draw(t, "length"), randomOffset.Draw(t, "offset")
	_ = p.both(t, "pread", func(side int) (any, error) {
		b := make([]byte, n)
		n, err := unix.Pread(fd[side], b, off)
		return string(b[:max(n, 0)]), err
	})
}

func (p *pair) ftruncate(t *rapid.T) {
	fd, size := p.fd(t), randomOffset.Draw(t, "size")
	_ = p.both(t, "ftruncate", func(side int) (any, error) { return nil, unix.Ftruncate(fd[side], size) })
}

func (p *pair) fsync(t *rapid.T) {
	fd := p.fd(t)
	_ = p.both(t, "fsync", func(side int) (any, error) { return nil, unix.Fsync(fd[side]) })
}

// facts are the attributes that must agree.
type facts struct {
	mode     uint32
	uid, gid uint32
	nlink    uint64 // not of directories
	size     int64  // of files and symbolic links
}

func factsOf(st *unix.Stat_t) facts {
	f := facts{mode: st.Mode, uid: st.Uid, gid: st.Gid, nlink: uint64(st.Nlink), size: st.Size}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		f.nlink, f.size = 0, 0
	}
	return f
}

func (p *pair) fstat(t *rapid.T) {
	fd := p.fd(t)
	_ = p.both(t, "fstat", func(side int) (any, error) {
		var st unix.Stat_t
		err := unix.Fstat(fd[side], &st)
		f := factsOf(&st)
		f.nlink = 0
		return f, err
	})
}

func (p *pair) lstat(t *rapid.T) {
	path := p.path(t, "path")
	_ = p.both(t, "lstat", func(side int) (any, error) {
		var st unix.Stat_t
		err := unix.Lstat(path(side), &st)
		return factsOf(&st), err
	})
}

func (p *pair) truncate(t *rapid.T) {
	path, size := p.path(t, "path"), randomOffset.Draw(t, "size")
	_ = p.both(t, "truncate", func(side int) (any, error) { return nil, unix.Truncate(path(side), size) })
}

func (p *pair) mkdir(t *rapid.T) {
	path := p.path(t, "path")
	_ = p.both(t, "mkdir", func(side int) (any, error) { return nil, unix.Mkdir(path(side), 0o755) })
}

// closeRemoved closes what is open of a kind, or all, and has no name any more.
func (p *pair) closeRemoved(kind uint32) {
	for i := len(p.fds) - 1; i >= 0; i-- {
		var st unix.Stat_t
		if err := unix.Fstat(p.fds[i][0], &st); err != nil {
			p.Fatalf("fstat: %v", err)
		}
		if st.Nlink == 0 && (kind == 0 || st.Mode&unix.S_IFMT == kind) {
			p.closeAt(i)
		}
	}
}

func (p *pair) rmdir(t *rapid.T) {
	p.closeRemoved(0)
	path := p.path(t, "path")
	_ = p.both(t, "rmdir", func(side int) (any, error) { return nil, unix.Rmdir(path(side)) })
	p.closeRemoved(unix.S_IFDIR)
}

func (p *pair) unlink(t *rapid.T) {
	path := p.path(t, "path")
	_ = p.both(t, "unlink", func(side int) (any, error) { return nil, unix.Unlink(path(side)) })
}

func (p *pair) rename(t *rapid.T) {
	p.closeRemoved(0)
	from, to := p.path(t, "from"), p.path(t, "to")
	_ = p.both(t, "rename", func(side int) (any, error) { return nil, unix.Rename(from(side), to(side)) })
	p.closeRemoved(unix.S_IFDIR)
}

func (p *pair) link(t *rapid.T) {
	from, to := p.path(t, "from"), p.path(t, "to")
	_ = p.both(t, "link", func(side int) (any, error) { return nil, unix.Link(from(side), to(side)) })
}

func (p *pair) symlink(t *rapid.T) {
	to := rapid.SampledFrom([]string{"a", "b", "d/a", "../c", "gone"}).Draw(t, "target")
	path := p.path(t, "path")
	_ = p.both(t, "symlink", func(side int) (any, error) { return nil, unix.Symlink(to, path(side)) })
}

func (p *pair) readlink(t *rapid.T) {
	path := p.path(t, "path")
	_ = p.both(t, "readlink", func(side int) (any, error) { return os.Readlink(path(side)) })
}

func (p *pair) chmod(t *rapid.T) {
	path := p.path(t, "path")
	mode := rapid.SampledFrom([]uint32{0o755, 0o700, 0o640, 0o1777, 0o4755, 0}).Draw(t, "mode")
	_ = p.both(t, "chmod", func(side int) (any, error) { return nil, unix.Chmod(path(side), mode) })
}

func (p *pair) utimes(t *rapid.T) {
	path := p.path(t, "path")
	times := []unix.Timespec{
		{Sec: rapid.Int64Range(0, 1<<31).Draw(t, "atime"), Nsec: 1},
		{Sec: rapid.Int64Range(0, 1<<31).Draw(t, "mtime"), Nsec: rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")},
	}
	_ = p.both(t, "utimes", func(side int) (any, error) {
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, path(side), times, 0); err != nil {
			return nil, err // those of links have a case of their own
		}
		var st unix.Stat_t
		err := unix.Stat(path(side), &st)
		return st.Mtim, err
	})
}

func (p *pair) readdir(t *rapid.T) {
	path := p.path(t, "path")
	_ = p.both(t, "readdir", func(side int) (any, error) { return names(path(side)) })
}

// hidden tells whether a name is that of a removed file that is open, or was
// until a moment ago.
func hidden(name string) bool { return strings.HasPrefix(name, ".nfs") }

// names lists a directory without the hidden names of removed open files.
func names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var all []string
	for _, e := range entries {
		if !hidden(e.Name()) {
			all = append(all, e.Name()+" "+e.Type().String())
		}
	}
	return all, err
}

// content reads through a descriptor of its own, as another program would.
func (p *pair) content(t *rapid.T) {
	path := p.path(t, "path")
	_ = p.both(t, "content", func(side int) (any, error) {
		fd, err := unix.Open(path(side), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		defer unix.Close(fd)
		b := make([]byte, 40_000)
		n, err := unix.Pread(fd, b, 0)
		return string(b[:max(n, 0)]), err
	})
}

// sameTrees compares all there is in the end, with the files closed.
func (p *pair) sameTrees() {
	for len(p.fds) > 0 {
		p.closeAt(0)
	}
	var trees [2]map[string]string
	for side, root := range p.roots {
		trees[side] = make(map[string]string)
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if hidden(filepath.Base(path)) {
				return nil // it may be gone any moment
			}
			var st unix.Stat_t
			if err == nil {
				err = unix.Lstat(path, &st)
			}
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(root, path)
			trees[side][rel] = fmt.Sprintf("%+v", factsOf(&st))
			return nil
		})
		if err != nil {
			p.Fatalf("walk: %v", err)
		}
	}
	if !reflect.DeepEqual(trees[0], trees[1]) {
		p.Fatalf("in the end: locally %v, here %v", trees[0], trees[1])
	}
}
