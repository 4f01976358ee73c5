package memfs

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// model is a file as anybody would write it down.
type model struct {
	data   []byte
	stable []byte // what DropUncommitted goes back to
	dirty  bool
}

func (m *model) write(off int64, p []byte, stable bool) {
	put := func(b []byte) []byte {
		if need := int(off) + len(p); need > len(b) {
			b = append(b, make([]byte, need-len(b))...)
		}
		copy(b[off:], p)
		return b
	}
	if !stable && !m.dirty {
		m.stable, m.dirty = bytes.Clone(m.data), true
	}
	m.data = put(m.data)
	if stable && m.dirty {
		m.stable = put(m.stable)
	}
}

func (m *model) commit() { m.stable, m.dirty = nil, false }

func (m *model) truncate(n int) {
	m.commit()
	if n > len(m.data) {
		m.data = append(m.data, make([]byte, n-len(m.data))...)
	}
	m.data = m.data[:n:n]
}

func (m *model) punch(lo, hi int) {
	m.commit()
	for i := lo; i < min(hi, len(m.data)); i++ {
		m.data[i] = 0
	}
}

// Random operations on two files agree with the model, and so does the space
// that they occupy.
func TestFileModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := New(Options{Bytes: 1 << 40})
		var nodes [2]*Inode
		var models [2]model
		for i := range nodes {
			nodes[i], _, _ = fs.Make(root, fs.Root(), string(rune('a'+i)), file(0o644))
		}
		offset := rapid.Custom(func(t *rapid.T) int64 {
			if rapid.Bool().Draw(t, "aligned") {
				return rapid.Int64Range(0, 40).Draw(t, "page") * pageSize
			}
			return rapid.Int64Range(0, 2*chunkSize).Draw(t, "offset")
		})
		pick := func() (int, *Inode, *model) {
			i := rapid.IntRange(0, 1).Draw(t, "file")
			return i, nodes[i], &models[i]
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				_, n, m := pick()
				off := offset.Draw(t, "off")
				p := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, rapid.IntRange(1, chunkSize+9000).Draw(t, "len"))
				stable := rapid.Bool().Draw(t, "stable")
				if err := fs.Write(root, n, off, p, stable); err != nil {
					t.Fatal(err)
				}
				m.write(off, p, stable)
			},
			"truncate": func(t *rapid.T) {
				_, n, m := pick()
				size := offset.Draw(t, "size")
				if err := fs.SetAttr(root, n, SetAttr{Size: &size}); err != nil {
					t.Fatal(err)
				}
				m.truncate(int(size))
			},
			"punch": func(t *rapid.T) {
				_, n, m := pick()
				off, size := offset.Draw(t, "off"), offset.Draw(t, "size")+1
				if err := fs.Deallocate(root, n, off, size); err != nil {
					t.Fatal(err)
				}
				m.punch(int(off), int(off+size))
			},
			"allocate": func(t *rapid.T) {
				_, n, m := pick()
				off, size := offset.Draw(t, "off"), offset.Draw(t, "size")+1
				if err := fs.Allocate(root, n, off, size); err != nil {
					t.Fatal(err)
				}
				m.truncate(max(len(m.data), int(off+size)))
			},
			"copy": func(t *rapid.T) {
				i, n, m := pick()
				src, from := nodes[1-i], &models[1-i]
				so, do, size := offset.Draw(t, "src"), offset.Draw(t, "dst"), offset.Draw(t, "size")
				got, err := fs.Copy(root, src, so, n, do, size, false)
				if so > int64(len(from.data)) {
					if !errors.Is(err, syscall.EINVAL) {
						t.Fatalf("copy from behind the end: %v", err)
					}
					return
				}
				want := from.data[so:]
				if size != 0 && int(size) < len(want) {
					want = want[:size]
				}
				if err != nil || got != int64(len(want)) {
					t.Fatalf("copied %d, %v; want %d", got, err, len(want))
				}
				if len(want) > 0 {
					m.commit()
					m.write(do, want, true)
				}
			},
			"commit": func(t *rapid.T) {
				_, n, m := pick()
				if err := fs.Commit(n); err != nil {
					t.Fatal(err)
				}
				m.commit()
			},
			"lose": func(t *rapid.T) {
				fs.DropUncommitted()
				for i := range models {
					if m := &models[i]; m.dirty {
						m.data = m.stable
						m.commit()
					}
				}
			},
			"": func(t *rapid.T) {
				var pages int64
				for i, n := range nodes {
					check(t, fs, n, models[i].data)
					pages += n.pages
				}
				if used := fs.acct.used; used != pages*pageSize {
					t.Fatalf("%d bytes accounted for, %d pages in use", used, pages)
				}
			},
		})
	})
}

// check compares all that can be read of a file with what it should hold.
func check(t *rapid.T, fs *FS, n *Inode, want []byte) {
	if got := n.Attr().Size; got != int64(len(want)) {
		t.Fatalf("size %d, want %d", got, len(want))
	}
	buf := make([]byte, len(want)+10)
	got, eof, err := fs.Read(n, 0, buf)
	if err != nil || !eof || !bytes.Equal(buf[:got], want) {
		at := 0
		for at < min(got, len(want)) && buf[at] == want[at] {
			at++
		}
		t.Fatalf("read %d, %v, %v; first difference at %d", got, eof, err, at)
	}
	// Data and holes take turns to the end, and holes are zeros.
	for at := int64(0); at < int64(len(want)); {
		data, _, err := fs.SeekData(n, at, false)
		if errors.Is(err, syscall.ENXIO) {
			data = int64(len(want))
		} else if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want[at:data], make([]byte, data-at)) {
			t.Fatalf("data in a hole from %d to %d", at, data)
		}
		if data == int64(len(want)) {
			break
		}
		hole, _, err := fs.SeekData(n, data, true)
		if err != nil || hole <= data {
			t.Fatalf("hole at %d behind data at %d: %v", hole, data, err)
		}
		at = hole
	}
}

func TestSparse(t *testing.T) {
	fs := New(Options{Bytes: 1 << 20})
	n := mustMake(t, fs, root, fs.Root(), "f", file(0o600))
	if err := fs.Write(root, n, MaxSize-4, []byte("tail"), true); err != nil {
		t.Fatal(err)
	}
	if a := n.Attr(); a.Size != MaxSize || a.Used != pageSize {
		t.Errorf("size %d, %d used", a.Size, a.Used)
	}
	if err := fs.Write(root, n, MaxSize-4, []byte("tails"), true); err != syscall.EFBIG {
		t.Errorf("beyond the largest size: %v", err)
	}
	if at, _, err := fs.SeekData(n, 0, false); err != nil || at != MaxSize-pageSize {
		t.Errorf("data at %d, %v", at, err)
	}
	if at, _, err := fs.SeekData(n, 5, true); err != nil || at != 5 {
		t.Errorf("hole at %d, %v", at, err)
	}
	other := mustMake(t, fs, root, fs.Root(), "g", file(0o600))
	if got, err := fs.Copy(root, n, 0, other, 0, 0, false); err != nil || got != MaxSize {
		t.Errorf("copied %d, %v", got, err)
	}
	if a := other.Attr(); a.Size != MaxSize || a.Used != pageSize {
		t.Errorf("copy has size %d, %d used", a.Size, a.Used)
	}
	if err := fs.Deallocate(root, n, 1, MaxSize-1); err != nil {
		t.Error(err)
	}
	if a := n.Attr(); a.Used != 0 {
		t.Errorf("%d used by nothing but a hole", a.Used)
	}
}

func TestSpace(t *testing.T) {
	fs := New(Options{Bytes: 10 * pageSize, Quota: 4 * pageSize, Inodes: 4})
	user := Cred{UID: 7, GID: 7}
	n := mustMake(t, fs, root, fs.Root(), "root", file(0o666))
	mine := mustMake(t, fs, root, fs.Root(), "mine", file(0o666))
	uid := user.UID
	if err := fs.SetAttr(root, mine, SetAttr{UID: &uid}); err != nil {
		t.Fatal(err)
	}
	page := make([]byte, pageSize)
	for i := range 4 {
		if err := fs.Write(user, mine, int64(i)*pageSize, page, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := fs.Write(user, mine, 4*pageSize, page, true); err != syscall.EDQUOT {
		t.Errorf("above the quota: %v", err)
	}
	if err := fs.Write(root, n, 0, make([]byte, 7*pageSize), true); err != syscall.ENOSPC {
		t.Errorf("above the space: %v", err)
	}
	if a := n.Attr(); a.Size != 0 || a.Used != 0 {
		t.Errorf("a write that failed left %+v", a)
	}
	if err := fs.Allocate(root, n, 0, 6*pageSize); err != nil {
		t.Error(err)
	}
	if st := fs.Statfs(user); st.BytesFree != 0 || st.QuotaUsed != 4*pageSize || st.InodesFree != 1 {
		t.Errorf("%+v", st)
	}
	mustMake(t, fs, root, fs.Root(), "last", file(0o666))
	if _, _, err := fs.Make(root, fs.Root(), "more", file(0o666)); err != syscall.ENOSPC {
		t.Errorf("above the number of inodes: %v", err)
	}
	for _, name := range []string{"root", "mine", "last"} {
		if _, err := fs.Remove(root, fs.Root(), name); err != nil {
			t.Fatal(err)
		}
	}
	if st := fs.Statfs(user); st.BytesFree != 10*pageSize || st.QuotaUsed != 0 || st.InodesFree != 3 {
		t.Errorf("%+v", st)
	}
	if err := fs.Write(root, n, 0, page, true); err != syscall.ESTALE {
		t.Errorf("write to a removed file: %v", err)
	}
}
