package conformance

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

var xattrCases = []Case{
	{"Xattrs", xattrs},
	{"XattrSizes", xattrSizes},
	{"XattrLists", xattrLists},
	{"XattrPermissions", xattrPermissions},
	{"XattrNamespaces", xattrNamespaces},
	{"NFS4ACL", nfs4ACL},
}

// getXattr reads a whole attribute.
func getXattr(path, name string) ([]byte, error) {
	n, err := unix.Getxattr(path, name, nil)
	if err != nil || n == 0 {
		return nil, err
	}
	b := make([]byte, n)
	n, err = unix.Getxattr(path, name, b)
	return b[:max(n, 0)], err
}

// listXattrs returns the names of the attributes of users.
func listXattrs(path string) ([]string, error) {
	n, err := unix.Listxattr(path, nil)
	if err != nil || n == 0 {
		return nil, err
	}
	b := make([]byte, n)
	if n, err = unix.Listxattr(path, b); err != nil {
		return nil, err
	}
	if n == 0 || b[n-1] != 0 {
		return nil, fmt.Errorf("list of %d bytes does not end in a zero byte", n)
	}
	var names []string
	for _, name := range strings.Split(string(b[:n-1]), "\x00") {
		if strings.HasPrefix(name, "user.") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// xattrs: set, replaced, read, listed and removed, on files and directories,
// through paths and descriptors; they stay with the object when it is renamed,
// written to and opened again.
func xattrs(e *env) {
	file, dir := e.path("file"), e.path("dir")
	e.create(file, []byte("content"))
	e.mkdir(dir)
	e.offered(unix.Setxattr(file, "user.first", []byte("1"), 0), "extended attributes")
	for _, p := range []string{file, dir} {
		before := e.stat(p)
		e.ok(unix.Setxattr(p, "user.a", []byte("one"), unix.XATTR_CREATE), "create on %q", p)
		e.fails(unix.Setxattr(p, "user.a", []byte("two"), unix.XATTR_CREATE), "create again", unix.EEXIST)
		e.fails(unix.Setxattr(p, "user.b", []byte("two"), unix.XATTR_REPLACE), "replace what is not there", unix.ENODATA)
		e.ok(unix.Setxattr(p, "user.a", []byte("three"), unix.XATTR_REPLACE), "replace on %q", p)
		if v, err := getXattr(p, "user.a"); err != nil || string(v) != "three" {
			e.Errorf("%q: %q, %v", p, v, err)
		}
		_, err := unix.Getxattr(p, "user.b", nil)
		e.fails(err, "get what is not there", unix.ENODATA)
		e.fails(unix.Removexattr(p, "user.b"), "remove what is not there", unix.ENODATA)
		e.ok(unix.Setxattr(p, "user.empty", nil, 0), "set an empty one on %q", p)
		if v, err := getXattr(p, "user.empty"); err != nil || len(v) != 0 {
			e.Errorf("%q: empty one: %q, %v", p, v, err)
		}
		binary := []byte{0, 1, 0xff, 0, '\n', 0}
		e.ok(unix.Setxattr(p, "user.bin\xff\tary name", binary, 0), "set a binary one on %q", p)
		if v, err := getXattr(p, "user.bin\xff\tary name"); err != nil || !bytes.Equal(v, binary) {
			e.Errorf("%q: binary one: %q, %v", p, v, err)
		}
		if after := e.stat(p); after.Ctim == before.Ctim || after.Mtim != before.Mtim || after.Size != before.Size {
			e.Errorf("%q: status change time %v, then %v; modification time %v, then %v", p, before.Ctim, after.Ctim, before.Mtim, after.Mtim)
		}
	}
	fd := e.open(file, unix.O_RDWR, 0)
	e.ok(unix.Fsetxattr(fd, "user.fd", []byte("by descriptor"), 0), "fsetxattr")
	e.pwrite(fd, file, 0, []byte("other"))
	e.ok(unix.Rename(file, e.path("renamed")), "rename")
	file = e.path("renamed")
	buf := make([]byte, 100)
	if n, err := unix.Fgetxattr(fd, "user.fd", buf); err != nil || string(buf[:n]) != "by descriptor" {
		e.Errorf("fgetxattr: %v", err)
	}
	if v, err := getXattr(file, "user.fd"); err != nil || string(v) != "by descriptor" {
		e.Errorf("after the rename: %q, %v", v, err)
	}
	e.content(file, []byte("othernt"))
	for p, want := range map[string][]string{
		file: {"user.a", "user.bin\xff\tary name", "user.empty", "user.fd", "user.first"},
		dir:  {"user.a", "user.bin\xff\tary name", "user.empty"},
	} {
		got, err := listXattrs(p)
		if err != nil || !slices.Equal(got, want) {
			e.Errorf("%q: list %q, %v; expected %q", p, got, err, want)
		}
		for _, name := range want {
			e.ok(unix.Removexattr(p, name), "remove %q of %q", name, p)
			_, err := unix.Getxattr(p, name, nil)
			e.fails(err, "get what was removed", unix.ENODATA)
		}
		if got, err := listXattrs(p); err != nil || len(got) != 0 {
			e.Errorf("%q: list after removal %q, %v", p, got, err)
		}
	}
	if fd2 := e.open(e.path("gone"), unix.O_CREAT|unix.O_RDWR, 0o666); true {
		e.ok(unix.Unlink(e.path("gone")), "unlink")
		e.ok(unix.Fsetxattr(fd2, "user.a", []byte("x"), 0), "fsetxattr of a file without a name")
	}
	_, err := unix.Getxattr(e.path("missing"), "user.a", nil)
	e.fails(err, "of a missing file", unix.ENOENT)
}

// xattrSizes: values of every size up to what Linux allows, or up to where the
// file system says that they are too large; buffers of any size.
func xattrSizes(e *env) {
	p := e.path("file")
	e.create(p, nil)
	e.offered(unix.Setxattr(p, "user.v", nil, 0), "extended attributes")
	largest := 0
	for _, n := range []int{1, 2, 3, 4, 5, 255, 256, 1000, 2000, 4096, 10_000, 32_768, 65_535, 65_536} {
		v := e.data(n)
		err := unix.Setxattr(p, "user.v", v, 0)
		if n > 1000 && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.E2BIG) || errors.Is(err, unix.EDQUOT)) {
			break // many file systems keep them in one block
		}
		e.ok(err, "value of %d bytes", n)
		largest = n
		got, err := getXattr(p, "user.v")
		if err != nil || !bytes.Equal(got, v) {
			e.Errorf("value of %d bytes: got %d, %v", n, len(got), err)
		}
		if n > 1 {
			_, err = unix.Getxattr(p, "user.v", make([]byte, n-1))
			e.fails(err, fmt.Sprintf("value of %d bytes into a buffer of %d", n, n-1), unix.ERANGE)
		}
		big := make([]byte, n+100)
		if m, err := unix.Getxattr(p, "user.v", big); err != nil || m != n {
			e.Errorf("value of %d bytes into a larger buffer: %d, %v", n, m, err)
		}
	}
	e.Logf("largest value: %d bytes", largest)
	e.fails(unix.Setxattr(p, "user.w", make([]byte, 65_537), 0), "value of 64 KiB and one", unix.E2BIG)
	e.ok(unix.Setxattr(p, "user."+strings.Repeat("n", 250), []byte("v"), 0), "name of 255 bytes")
	e.fails(unix.Setxattr(p, "user."+strings.Repeat("n", 251), []byte("v"), 0), "name of 256 bytes", unix.ERANGE, unix.ENAMETOOLONG)
	e.fails(unix.Setxattr(p, "user.", []byte("v"), 0), "no name", unix.EINVAL)
}

// xattrLists: many names, and buffers that are too small for them.
func xattrLists(e *env) {
	p := e.path("file")
	e.create(p, nil)
	e.offered(unix.Setxattr(p, "user.first", nil, 0), "extended attributes")
	e.ok(unix.Removexattr(p, "user.first"), "remove")
	var want []string
	for i := range 500 {
		name := fmt.Sprintf("user.%s-%03d", strings.Repeat("x", i%50), i)
		err := unix.Setxattr(p, name, []byte{byte(i)}, unix.XATTR_CREATE)
		if len(want) > 20 && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.E2BIG)) {
			break
		}
		e.ok(err, "set %q", name)
		want = append(want, name)
	}
	slices.Sort(want)
	got, err := listXattrs(p)
	if err != nil || !slices.Equal(got, want) {
		e.Errorf("%d names listed of %d, %v", len(got), len(want), err)
	}
	size, err := unix.Listxattr(p, nil)
	e.ok(err, "size of the list")
	for _, n := range []int{1, 10, size - 1} {
		_, err := unix.Listxattr(p, make([]byte, n))
		e.fails(err, fmt.Sprintf("list of %d bytes into a buffer of %d", size, n), unix.ERANGE)
	}
	for i, name := range want {
		if i%2 == 0 {
			e.ok(unix.Removexattr(p, name), "remove %q", name)
		}
	}
	got, err = listXattrs(p)
	if err != nil || len(got) != len(want)/2 {
		e.Errorf("%d names listed of %d, %v", len(got), len(want)/2, err)
	}
}

// xattrPermissions: who may not read a file may not read its attributes, and who
// may not write it may not set them.
func xattrPermissions(e *env) {
	e.needRoot()
	p := e.path("file")
	e.create(p, nil)
	e.offered(unix.Setxattr(p, "user.a", []byte("v"), 0), "extended attributes")
	e.ok(unix.Chmod(e.dir, 0o755), "chmod of the directory")
	ro, rw := e.open(p, unix.O_RDONLY, 0), e.open(p, unix.O_RDWR, 0)
	for _, k := range []struct {
		mode      uint32
		get, set  error
		mayRemove bool
	}{{0o600, unix.EACCES, unix.EACCES, false}, {0o604, nil, unix.EACCES, false}, {0o606, nil, nil, true}} {
		e.ok(unix.Chmod(p, k.mode), "chmod %o", k.mode)
		err := e.as(12345, 12345, nil, func() error {
			if _, err := unix.Fgetxattr(ro, "user.a", make([]byte, 10)); !errors.Is(err, k.get) {
				e.Errorf("mode %o: get: %v, expected %v", k.mode, err, k.get)
			}
			if err := unix.Fsetxattr(rw, "user.a", []byte("w"), 0); !errors.Is(err, k.set) {
				e.Errorf("mode %o: set: %v, expected %v", k.mode, err, k.set)
			}
			return nil
		})
		e.ok(err, "as another user")
	}
}

// xattrNamespaces: names that the file system has no attributes for say so.
func xattrNamespaces(e *env) {
	p := e.path("file")
	e.create(p, nil)
	e.offered(unix.Setxattr(p, "user.a", []byte("v"), 0), "extended attributes")
	e.fails(unix.Setxattr(p, "nonsense.a", []byte("v"), 0), "a name space that there is not", unix.EOPNOTSUPP)
	e.fails(unix.Setxattr(p, "a", []byte("v"), 0), "no name space", unix.EOPNOTSUPP)
	_, err := unix.Getxattr(p, "nonsense.a", nil)
	e.fails(err, "get in a name space that there is not", unix.EOPNOTSUPP)
	e.fails(unix.Removexattr(p, "nonsense.a"), "remove in a name space that there is not", unix.EOPNOTSUPP)
	l, dev := e.path("link"), e.path("fifo")
	e.ok(unix.Symlink("file", l), "symlink")
	e.ok(unix.Mkfifo(dev, 0o666), "mkfifo")
	for _, q := range []string{l, dev} {
		e.fails(unix.Lsetxattr(q, "user.a", []byte("v"), 0), "set on what is neither file nor directory", unix.EPERM)
		_, err := unix.Lgetxattr(q, "user.a", nil)
		e.fails(err, "get of what is neither file nor directory", unix.ENODATA)
		if n, err := unix.Llistxattr(q, make([]byte, 1000)); err != nil {
			e.Errorf("%q: list: %d, %v", q, n, err)
		}
	}
}

// nfs4ACL: system.nfs4_acl reads as a list of entries, can be written back and
// changed, and the mode follows.
func nfs4ACL(e *env) {
	const name = "system.nfs4_acl"
	p := e.path("file")
	e.create(p, nil)
	e.ok(unix.Chmod(p, 0o640), "chmod")
	acl, err := getXattr(p, name)
	e.offered(err, "NFSv4 ACLs")
	// A count, and for each entry type, flags, mask and the length of who it is
	// for, all of 32 bits, and who, padded to a multiple of four.
	entries := 0
	for b := acl[4:]; len(b) > 0; entries++ {
		if len(b) < 16 {
			e.Fatalf("%d bytes behind entry %d", len(b), entries)
		}
		who := int(binary.BigEndian.Uint32(b[12:]))
		if size := 16 + (who+3)&^3; size <= len(b) {
			b = b[size:]
		} else {
			e.Fatalf("entry %d: %d bytes for who", entries, who)
		}
	}
	if n := binary.BigEndian.Uint32(acl); int(n) != entries || n == 0 {
		e.Errorf("%d entries announced, %d there", n, entries)
	}
	e.ok(unix.Setxattr(p, name, acl, 0), "write the ACL back")
	if st := e.stat(p); st.Mode&0o777 != 0o640 {
		e.Errorf("mode %o after writing the ACL back, expected 640", st.Mode&0o777)
	}
	if again, err := getXattr(p, name); err != nil || !bytes.Equal(again, acl) {
		e.Errorf("ACL written back: % x, %v; expected % x", again, err, acl)
	}
	add := func(b []byte, typ, flag, mask uint32, who string) []byte {
		for _, v := range []uint32{typ, flag, mask, uint32(len(who))} {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		return append(append(b, who...), make([]byte, -len(who)&3)...)
	}
	const read, write, execute, always = 0x1, 0x6, 0x20, 0x120080
	b := []byte{0, 0, 0, 3}
	b = add(b, 0, 0, read|write|execute|always|0x40100, "OWNER@")
	b = add(b, 0, 0x40, read|execute|always, "GROUP@")
	b = add(b, 0, 0, always, "EVERYONE@")
	e.stat(p) // so that the mode is cached
	e.ok(unix.Setxattr(p, name, b, 0), "set an ACL")
	if st := e.stat(p); st.Mode&0o777 != 0o750 {
		e.Errorf("mode %o after setting an ACL, expected 750", st.Mode&0o777)
	}
	e.fails(unix.Setxattr(p, name, b[:len(b)-3], 0), "an ACL that ends early", unix.EINVAL)
	e.fails(unix.Setxattr(p, name, nil, 0), "an ACL of no bytes", unix.EINVAL)
	e.fails(unix.Removexattr(p, name), "remove the ACL", unix.EINVAL)
	e.ok(unix.Chmod(p, 0o600), "chmod")
	after, err := getXattr(p, name)
	if err != nil || bytes.Equal(after, b) {
		e.Errorf("ACL unchanged by chmod, %v", err)
	}
	list := make([]byte, 4096)
	n, err := unix.Listxattr(p, list)
	if err != nil || !slices.Contains(strings.Split(string(list[:n]), "\x00"), name) {
		e.Errorf("list: %q, %v", list[:max(n, 0)], err)
	}
}
