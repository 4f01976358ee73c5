package fusefs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// localFS is a backend that serves a local directory by the kernel's own
// filehandles. It makes no permission checks (the kernel's FUSE does) and has
// no wire, so what fails on it is a fault of this package. It needs root.
type localFS struct {
	root int // descriptor of the directory
	pool *ulb.Pool

	open atomic.Int64 // open files

	mu   sync.Mutex
	hook func(ctx context.Context, op string) error // called first by every operation, if set
}

func newLocalFS(dir string) (*localFS, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &localFS{root: fd, pool: ulb.NewPool(ulb.HeapMemory{}, 64<<20)}, nil
}

func (l *localFS) close() {
	unix.Close(l.root)
	l.pool.Close()
}

func (l *localFS) setHook(f func(ctx context.Context, op string) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hook = f
}

func (l *localFS) enter(ctx context.Context, op string) error {
	l.mu.Lock()
	hook := l.hook
	l.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(ctx, op)
}

// status makes an NFS status of the errnos that have one which matters here.
func status(err error) error {
	for errno, s := range map[unix.Errno]nfs4.Status{
		unix.ENOENT: nfs4.ErrNoEnt, unix.ENOTEMPTY: nfs4.ErrNotEmpty, unix.ESTALE: nfs4.ErrStale,
	} {
		if errors.Is(err, errno) {
			return &nfsclient.Error{Op: "LOCAL", Err: s}
		}
	}
	return err
}

func (l *localFS) handle(dir int, name string, flags int) (nfs4.FH, error) {
	h, _, err := unix.NameToHandleAt(dir, name, flags)
	if err != nil {
		return nil, status(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(h.Type())), h.Bytes()...), nil
}

func (l *localFS) openFH(fh nfs4.FH, flags int) (int, error) {
	h := unix.NewFileHandle(int32(binary.BigEndian.Uint32(fh)), fh[4:])
	fd, err := unix.OpenByHandleAt(l.root, h, flags|unix.O_CLOEXEC)
	return fd, status(err)
}

// with opens an object by its filehandle, without access to its data, for the
// length of a call.
func (l *localFS) with(fh nfs4.FH, use func(fd int) error) error {
	fd, err := l.openFH(fh, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return status(use(fd))
}

func localAttrs(dir int, name string) (*nfs4.Attrs, error) {
	var st unix.Stat_t
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	if err := unix.Fstatat(dir, name, &st, flags); err != nil {
		return nil, status(err)
	}
	a := &nfs4.Attrs{
		Type: map[uint32]nfs4.FileType{
			unix.S_IFREG: nfs4.TypeReg, unix.S_IFDIR: nfs4.TypeDir, unix.S_IFLNK: nfs4.TypeLnk, unix.S_IFBLK: nfs4.TypeBlk,
			unix.S_IFCHR: nfs4.TypeChr, unix.S_IFIFO: nfs4.TypeFifo, unix.S_IFSOCK: nfs4.TypeSock,
		}[st.Mode&unix.S_IFMT],
		Change: uint64(st.Ctim.Sec)*1e9 + uint64(st.Ctim.Nsec), Size: uint64(st.Size), FileID: st.Ino,
		FSID: nfs4.FSID{Major: 1}, Mode: st.Mode & 0o7777, NumLinks: uint32(st.Nlink),
		Owner: fmt.Sprint(st.Uid), OwnerGroup: fmt.Sprint(st.Gid),
		RawDev:     nfs4.SpecData{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)},
		SpaceUsed:  uint64(st.Blocks) * 512,
		TimeAccess: nfs4.Time{Sec: st.Atim.Sec, Nsec: uint32(st.Atim.Nsec)}, TimeModify: nfs4.Time{Sec: st.Mtim.Sec, Nsec: uint32(st.Mtim.Nsec)},
		TimeMetadata: nfs4.Time{Sec: st.Ctim.Sec, Nsec: uint32(st.Ctim.Nsec)},
	}
	a.Mask = nfs4.MakeBitmap(nfs4.AttrType, nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrFileID, nfs4.AttrFSID, nfs4.AttrMode,
		nfs4.AttrNumLinks, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrRawDev, nfs4.AttrSpaceUsed, nfs4.AttrTimeAccess,
		nfs4.AttrTimeModify, nfs4.AttrTimeMetadata)
	return a, nil
}

func (l *localFS) Limits() nfsclient.Limits {
	return nfsclient.Limits{RSize: 1 << 20, WSize: 1 << 20}
}

func (l *localFS) rootAttrs() (nfs4.FH, *nfs4.Attrs, error) {
	fh, err := l.handle(l.root, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return nil, nil, err
	}
	a, err := localAttrs(l.root, "")
	return fh, a, err
}

func (l *localFS) Lookup(ctx context.Context, _ nfsclient.Cred, dir nfs4.FH, name string) (fh nfs4.FH, a *nfs4.Attrs, err error) {
	if err := l.enter(ctx, "LOOKUP"); err != nil {
		return nil, nil, err
	}
	err = l.with(dir, func(fd int) error { fh, a, err = l.look(fd, name); return err })
	return fh, a, err
}

func (l *localFS) look(dir int, name string) (nfs4.FH, *nfs4.Attrs, error) {
	fh, err := l.handle(dir, name, 0)
	if err != nil {
		return nil, nil, err
	}
	a, err := l.getAttr(fh)
	return fh, a, err
}

func (l *localFS) getAttr(fh nfs4.FH) (a *nfs4.Attrs, err error) {
	err = l.with(fh, func(fd int) error { a, err = localAttrs(fd, ""); return err })
	return a, err
}

func (l *localFS) GetAttr(ctx context.Context, _ nfsclient.Cred, fh nfs4.FH) (*nfs4.Attrs, error) {
	if err := l.enter(ctx, "GETATTR"); err != nil {
		return nil, err
	}
	return l.getAttr(fh)
}

func (l *localFS) SetAttr(ctx context.Context, _ nfsclient.Cred, fh nfs4.FH, _ file, set *nfs4.Attrs) (*nfs4.Attrs, error) {
	if err := l.enter(ctx, "SETATTR"); err != nil {
		return nil, err
	}
	if set.Has(nfs4.AttrSize) {
		fd, err := l.openFH(fh, unix.O_WRONLY)
		if err != nil {
			return nil, err
		}
		err = unix.Ftruncate(fd, int64(set.Size))
		var st unix.Stat_t
		if err == nil {
			err = unix.Fstat(fd, &st)
		}
		if err == nil && st.Uid != 0 && st.Mode&0o6000 != 0 {
			err = unix.Fchmod(fd, st.Mode&0o1777)
		}
		unix.Close(fd)
		if err != nil {
			return nil, err
		}
	}
	err := l.with(fh, func(fd int) error {
		if set.Has(nfs4.AttrOwner) || set.Has(nfs4.AttrOwnerGroup) {
			uid, gid := -1, -1
			if set.Has(nfs4.AttrOwner) {
				uid = int(numericID(set.Owner))
			}
			if set.Has(nfs4.AttrOwnerGroup) {
				gid = int(numericID(set.OwnerGroup))
			}
			if err := unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
		}
		if set.Has(nfs4.AttrMode) {
			if err := unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), set.Mode); err != nil {
				return err
			}
		}
		if set.Has(nfs4.AttrTimeAccessSet) || set.Has(nfs4.AttrTimeModifySet) {
			ts := func(has bool, t nfs4.SetTime) unix.Timespec {
				switch {
				case !has:
					return unix.Timespec{Nsec: unix.UTIME_OMIT}
				case !t.Client:
					return unix.Timespec{Nsec: unix.UTIME_NOW}
				}
				return unix.Timespec{Sec: t.Time.Sec, Nsec: int64(t.Time.Nsec)}
			}
			times := []unix.Timespec{ts(set.Has(nfs4.AttrTimeAccessSet), set.TimeAccessSet), ts(set.Has(nfs4.AttrTimeModifySet), set.TimeModifySet)}
			if err := unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l.getAttr(fh)
}

func (l *localFS) Access(ctx context.Context, _ nfsclient.Cred, _ nfs4.FH, want uint32) (uint32, error) {
	return want, l.enter(ctx, "ACCESS")
}

func (l *localFS) ReadLink(ctx context.Context, _ nfsclient.Cred, fh nfs4.FH) (target string, err error) {
	if err := l.enter(ctx, "READLINK"); err != nil {
		return "", err
	}
	err = l.with(fh, func(fd int) error {
		buf := make([]byte, 8192)
		n, err := unix.Readlinkat(fd, "", buf)
		target = string(buf[:max(n, 0)])
		return err
	})
	return target, err
}

// made gives what was made its owner, group and mode.
func (l *localFS) made(dir int, name string, cred nfsclient.Cred, set *nfs4.Attrs) (nfs4.FH, *nfs4.Attrs, error) {
	var st, up unix.Stat_t
	if err := unix.Fstat(dir, &up); err != nil {
		return nil, nil, err
	}
	gid := int(cred.GID)
	if up.Mode&unix.S_ISGID != 0 {
		gid = int(up.Gid)
	}
	if err := unix.Fchownat(dir, name, int(cred.UID), gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, nil, err
	}
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK && set != nil {
		mode := set.Mode
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			mode |= up.Mode & unix.S_ISGID
		}
		if err := unix.Fchmodat(dir, name, mode, 0); err != nil {
			return nil, nil, err
		}
	}
	return l.look(dir, name)
}

func (l *localFS) create(ctx context.Context, op string, cred nfsclient.Cred, dir nfs4.FH, name string, set *nfs4.Attrs, do func(dir int) error) (fh nfs4.FH, a *nfs4.Attrs, err error) {
	if err := l.enter(ctx, op); err != nil {
		return nil, nil, err
	}
	err = l.with(dir, func(fd int) error {
		if err := do(fd); err != nil {
			return err
		}
		fh, a, err = l.made(fd, name, cred, set)
		return err
	})
	return fh, a, err
}

func (l *localFS) Mkdir(ctx context.Context, cred nfsclient.Cred, dir nfs4.FH, name string, set *nfs4.Attrs) (nfs4.FH, *nfs4.Attrs, error) {
	return l.create(ctx, "MKDIR", cred, dir, name, set, func(fd int) error { return unix.Mkdirat(fd, name, 0o700) })
}

func (l *localFS) Symlink(ctx context.Context, cred nfsclient.Cred, dir nfs4.FH, name, target string, set *nfs4.Attrs) (nfs4.FH, *nfs4.Attrs, error) {
	return l.create(ctx, "SYMLINK", cred, dir, name, set, func(fd int) error { return unix.Symlinkat(target, fd, name) })
}

func (l *localFS) Mknod(ctx context.Context, cred nfsclient.Cred, dir nfs4.FH, name string, typ nfs4.FileType, dev nfs4.SpecData, set *nfs4.Attrs) (nfs4.FH, *nfs4.Attrs, error) {
	return l.create(ctx, "MKNOD", cred, dir, name, set, func(fd int) error {
		return unix.Mknodat(fd, name, fileType(typ)|0o600, int(unix.Mkdev(dev.Major, dev.Minor)))
	})
}

func (l *localFS) Link(ctx context.Context, _ nfsclient.Cred, fh, dir nfs4.FH, name string) (*nfs4.Attrs, error) {
	if err := l.enter(ctx, "LINK"); err != nil {
		return nil, err
	}
	err := l.with(fh, func(from int) error {
		return l.with(dir, func(to int) error { return unix.Linkat(from, "", to, name, unix.AT_EMPTY_PATH) })
	})
	if err != nil {
		return nil, err
	}
	return l.getAttr(fh)
}

func (l *localFS) Remove(ctx context.Context, _ nfsclient.Cred, dir nfs4.FH, name string) error {
	if err := l.enter(ctx, "REMOVE"); err != nil {
		return err
	}
	return l.with(dir, func(fd int) error {
		err := unix.Unlinkat(fd, name, 0)
		if err == unix.EISDIR {
			err = unix.Unlinkat(fd, name, unix.AT_REMOVEDIR)
		}
		return err
	})
}

func (l *localFS) Rename(ctx context.Context, _ nfsclient.Cred, fromDir nfs4.FH, fromName string, toDir nfs4.FH, toName string) error {
	if err := l.enter(ctx, "RENAME"); err != nil {
		return err
	}
	return l.with(fromDir, func(from int) error {
		return l.with(toDir, func(to int) error { return unix.Renameat(from, fromName, to, toName) })
	})
}

func (l *localFS) StatFS(ctx context.Context, _ nfsclient.Cred, _ nfs4.FH) (*nfs4.Attrs, error) {
	if err := l.enter(ctx, "STATFS"); err != nil {
		return nil, err
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(l.root, &st); err != nil {
		return nil, err
	}
	n := uint64(st.Bsize)
	return &nfs4.Attrs{
		SpaceTotal: st.Blocks * n, SpaceFree: st.Bfree * n, SpaceAvail: st.Bavail * n,
		FilesTotal: st.Files, FilesFree: st.Ffree, MaxName: 255,
		Mask: nfs4.MakeBitmap(nfs4.AttrMaxName),
	}, nil
}

func (l *localFS) ReadDir(ctx context.Context, _ nfsclient.Cred, dir nfs4.FH, cookie uint64, verf nfs4.Verifier, plus bool, n int, each func(*nfsclient.DirEntry)) (nfs4.Verifier, bool, error) {
	if err := l.enter(ctx, "READDIR"); err != nil {
		return verf, false, err
	}
	fd, err := l.openFH(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return verf, false, err
	}
	defer unix.Close(fd)
	if _, err := unix.Seek(fd, int64(cookie), unix.SEEK_SET); err != nil {
		return verf, false, &nfsclient.Error{Op: "READDIR", Err: nfs4.ErrBadCookie}
	}
	if n == 0 {
		n = 16 << 10
	}
	buf := make([]byte, n)
	for given := 0; given == 0; {
		k, err := unix.Getdents(fd, buf)
		if err != nil {
			return verf, false, status(err)
		}
		if k == 0 {
			return verf, true, nil
		}
		for b := buf[:k]; len(b) > 0; {
			// struct linux_dirent64: ino 8, off 8, length 2, type 1, name
			size := binary.NativeEndian.Uint16(b[16:])
			name := unix.ByteSliceToString(b[19:size])
			e := nfsclient.DirEntry{Name: []byte(name), Cookie: binary.NativeEndian.Uint64(b[8:])}
			e.Attrs.FileID = binary.NativeEndian.Uint64(b)
			e.Attrs.Mask = nfs4.MakeBitmap(nfs4.AttrFileID)
			b = b[size:]
			if name == "." || name == ".." {
				continue
			}
			if plus {
				fh, a, err := l.look(fd, name)
				if err != nil {
					e.Attrs.Mask.Set(nfs4.AttrRDAttrError)
				} else {
					e.Attrs = *a
					e.Attrs.FileHandle = fh
					e.Attrs.Mask.Set(nfs4.AttrFileHandle)
				}
			}
			each(&e)
			given++
		}
	}
	return verf, false, nil
}

func (l *localFS) Open(ctx context.Context, cred nfsclient.Cred, r nfsclient.OpenRequest) (file, nfs4.FH, *nfs4.Attrs, error) {
	if err := l.enter(ctx, "OPEN"); err != nil {
		return nil, nil, nil, err
	}
	flags := unix.O_RDONLY
	if r.Write {
		flags = unix.O_RDWR
	}
	if r.Truncate {
		flags |= unix.O_TRUNC
	}
	fh := r.FH
	if fh == nil {
		err := l.with(r.Dir, func(dir int) error {
			var err error
			if r.Create {
				var fd int
				if fd, err = unix.Openat(dir, r.Name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o600); err == nil {
					unix.Close(fd)
					fh, _, err = l.made(dir, r.Name, cred, r.Attrs)
					return err
				}
				if err != unix.EEXIST || r.Exclusive {
					return err
				}
			}
			fh, err = l.handle(dir, r.Name, 0)
			return err
		})
		if err != nil {
			return nil, nil, nil, err
		}
	}
	fd, err := l.openFH(fh, flags)
	if err != nil {
		return nil, nil, nil, err
	}
	a, err := localAttrs(fd, "")
	if err != nil {
		unix.Close(fd)
		return nil, nil, nil, err
	}
	l.open.Add(1)
	return &localFile{fs: l, fd: fd, root: cred.UID == 0}, fh, a, nil
}

type localFile struct {
	fs   *localFS
	fd   int
	root bool
}

func (f *localFile) Read(ctx context.Context, off int64, n int) (*ulb.Buffer, int, bool, error) {
	if err := f.fs.enter(ctx, "READ"); err != nil {
		return nil, 0, false, err
	}
	buf, err := f.fs.pool.Get(ctx, n)
	if err != nil {
		return nil, 0, false, err
	}
	got := 0
	for got < n {
		k, err := unix.Pread(f.fd, buf.Data[got:n], off+int64(got))
		if err != nil {
			buf.Release()
			return nil, 0, false, err
		}
		if k == 0 {
			break
		}
		got += k
	}
	return buf, got, got < n, nil
}

func (f *localFile) WriteAttrs(ctx context.Context, off int64, data []byte) (int, *nfs4.Attrs, error) {
	n, err := f.write(ctx, off, data)
	return n, nil, err
}

func (f *localFile) write(ctx context.Context, off int64, data []byte) (int, error) {
	if err := f.fs.enter(ctx, "WRITE"); err != nil {
		return 0, err
	}
	n, err := unix.Pwrite(f.fd, data, off)
	var st unix.Stat_t
	if err == nil && !f.root {
		if err = unix.Fstat(f.fd, &st); err == nil && st.Mode&0o6000 != 0 {
			err = unix.Fchmod(f.fd, st.Mode&0o1777)
		}
	}
	return max(n, 0), err
}

func (f *localFile) SyncAttrs(ctx context.Context) (*nfs4.Attrs, error) {
	return nil, f.fs.enter(ctx, "COMMIT")
}

func (f *localFile) Close(ctx context.Context) error {
	f.fs.open.Add(-1)
	if err := unix.Close(f.fd); err != nil {
		return err
	}
	return f.fs.enter(ctx, "CLOSE")
}

// haveFUSE skips a test where FUSE mounts cannot work, and says why.
func haveFUSE(t interface {
	Helper()
	Skip(...any)
}) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("no /dev/fuse here: load the kernel module (modprobe fuse)")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}
