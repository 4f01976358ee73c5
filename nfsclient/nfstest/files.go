package nfstest

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"time"

	"nfsrdma-fuse/nfsclient/nfstest/memfs"
	"nfsrdma-fuse/xdr/nfs4"
)

// The methods in this file go past the wire: they look at and change the exported
// file systems as a program on the server would, in the name of root. Paths
// begin at the server's root; symbolic links are not followed.

func pathError(op, p string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: p, Err: err}
}

// find returns the object at a path.
func (s *Server) find(p string) (object, error) {
	at := s.exports.root()
	for _, name := range components(path.Clean("/" + p)) {
		o, err := s.exports.lookup(memfs.Cred{}, at, name)
		if err != nil {
			return object{}, err
		}
		at = o
	}
	return at, nil
}

// parent returns the directory that a path lies in, and its last name.
func (s *Server) parent(p string) (object, string, error) {
	p = path.Clean("/" + p)
	o, err := s.find(path.Dir(p))
	return o, path.Base(p), err
}

// Stat returns the attributes of the object at a path.
func (s *Server) Stat(p string) (memfs.Attr, error) {
	o, err := s.find(p)
	if err != nil {
		return memfs.Attr{}, pathError("stat", p, err)
	}
	return o.n.Attr(), nil
}

// Handle returns the file handle of the object at a path.
func (s *Server) Handle(p string) (nfs4.FH, error) {
	o, err := s.find(p)
	if err != nil {
		return nil, pathError("handle", p, err)
	}
	return o.handle(), nil
}

// ReadFile returns the contents of the file at a path, committed or not.
func (s *Server) ReadFile(p string) ([]byte, error) {
	o, err := s.find(p)
	if err != nil {
		return nil, pathError("read", p, err)
	}
	data := make([]byte, o.n.Attr().Size)
	n, _, err := o.exp.fs.Read(o.n, 0, data)
	return data[:n], pathError("read", p, err)
}

// ReadAt reads from the file at a path.
func (s *Server) ReadAt(p string, buf []byte, off int64) (int, error) {
	o, err := s.find(p)
	if err != nil {
		return 0, pathError("read", p, err)
	}
	n, _, err := o.exp.fs.Read(o.n, off, buf)
	return n, pathError("read", p, err)
}

// ReadDir returns the names in the directory at a path, in the order in which
// they were made.
func (s *Server) ReadDir(p string) ([]string, error) {
	o, err := s.find(p)
	if err != nil {
		return nil, pathError("readdir", p, err)
	}
	entries, _, err := o.exp.fs.ReadDir(memfs.Cred{}, o.n, 0, 1<<62, nil)
	names := make([]string, len(entries))
	for i := range entries {
		names[i] = entries[i].Name
	}
	return names, pathError("readdir", p, err)
}

// ReadLink returns the target of the symbolic link at a path.
func (s *Server) ReadLink(p string) (string, error) {
	o, err := s.find(p)
	if err != nil {
		return "", pathError("readlink", p, err)
	}
	return o.n.Target(), nil
}

// WriteFile makes a file with these contents, or gives a file new contents.
// Delegations that clients hold of it are recalled first: it waits for them.
func (s *Server) WriteFile(p string, data []byte, mode uint32) error {
	dir, name, err := s.parent(p)
	if err != nil {
		return pathError("write", p, err)
	}
	n, err := dir.exp.fs.Lookup(memfs.Cred{}, dir.n, name)
	if err != nil {
		n, _, err = dir.exp.fs.Make(memfs.Cred{}, dir.n, name, memfs.Object{Kind: memfs.Regular, Mode: mode})
	}
	if err != nil {
		return pathError("write", p, err)
	}
	if err := s.reclaimFrom(object{dir.exp, n}); err != nil {
		return pathError("write", p, err)
	}
	size := int64(0)
	if err := dir.exp.fs.SetAttr(memfs.Cred{}, n, memfs.SetAttr{Size: &size}); err != nil {
		return pathError("write", p, err)
	}
	return pathError("write", p, dir.exp.fs.Write(memfs.Cred{}, n, 0, data, true))
}

// reclaimFrom recalls the delegations of an object and waits until they are back
// or revoked.
func (s *Server) reclaimFrom(o object) error {
	t := time.NewTicker(time.Millisecond)
	defer t.Stop()
	for {
		s.mu.Lock()
		s.lastSweep = time.Time{}
		s.sweep(s.now())
		status := s.breakDelegations(nil, s.files[o.n], true)
		s.mu.Unlock()
		if status == nfs4.OK {
			return nil
		}
		select {
		case <-t.C:
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// Mkdir makes a directory.
func (s *Server) Mkdir(p string, mode uint32) error {
	return s.make("mkdir", p, memfs.Object{Kind: memfs.Directory, Mode: mode})
}

// MkdirAll makes a directory and those on the way to it that are missing.
func (s *Server) MkdirAll(p string) error {
	_, err := s.exports.makeDirs(path.Clean("/" + p))
	return err
}

// Symlink makes a symbolic link at a path.
func (s *Server) Symlink(target, p string) error {
	return s.make("symlink", p, memfs.Object{Kind: memfs.Symlink, Target: target})
}

func (s *Server) make(op, p string, o memfs.Object) error {
	dir, name, err := s.parent(p)
	if err == nil {
		_, _, err = dir.exp.fs.Make(memfs.Cred{}, dir.n, name, o)
	}
	return pathError(op, p, err)
}

// SetAttr sets attributes of the object at a path.
func (s *Server) SetAttr(p string, a memfs.SetAttr) error {
	o, err := s.find(p)
	if err == nil {
		err = s.reclaimFrom(o)
	}
	if err == nil {
		err = o.exp.fs.SetAttr(memfs.Cred{}, o.n, a)
	}
	return pathError("setattr", p, err)
}

// Remove removes the object at a path; a directory must be empty.
func (s *Server) Remove(p string) error {
	dir, name, err := s.parent(p)
	if err == nil {
		_, err = dir.exp.fs.Remove(memfs.Cred{}, dir.n, name)
	}
	return pathError("remove", p, err)
}

// Rename renames the object at a path.
func (s *Server) Rename(from, to string) error {
	d1, n1, err := s.parent(from)
	if err != nil {
		return pathError("rename", from, err)
	}
	d2, n2, err := s.parent(to)
	if err != nil {
		return pathError("rename", to, err)
	}
	if d1.exp != d2.exp {
		return fmt.Errorf("rename %s %s: %w", from, to, fs.ErrInvalid)
	}
	_, _, err = d1.exp.fs.Rename(memfs.Cred{}, d1.n, n1, d2.n, n2)
	return pathError("rename", from, err)
}

// Seed makes a tree: a name that ends in a slash is a directory, others are files
// with these contents. Directories on the way are made.
func (s *Server) Seed(tree map[string]string) error {
	for name, data := range tree {
		if name[len(name)-1] == '/' {
			if err := s.MkdirAll(name); err != nil {
				return err
			}
			continue
		}
		if err := s.MkdirAll(path.Dir("/" + name)); err != nil {
			return err
		}
		if err := s.WriteFile(name, []byte(data), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// SetSpace sets the space in bytes of the file system that a path lies in.
func (s *Server) SetSpace(p string, bytes int64) error {
	o, err := s.find(p)
	if err == nil {
		o.exp.fs.SetSpace(bytes)
	}
	return pathError("space", p, err)
}

// WaitClean waits until nothing is left of any client. Its error tells what is.
func (s *Server) WaitClean(ctx context.Context) error {
	t := time.NewTicker(time.Millisecond)
	defer t.Stop()
	for {
		left := s.Leaks()
		if left == "" {
			return nil
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return fmt.Errorf("nfstest: left at the server: %s", left)
		}
	}
}
