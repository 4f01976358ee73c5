package nfstest

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"nfsrdma-fuse/nfsclient/nfstest/memfs"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

func TestFilesPastTheWire(t *testing.T) {
	s := newServer(t, Options{Exports: []Export{{Path: "/"}, {Path: "/other"}}})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Seed(map[string]string{"a/b/c": "contents", "empty/": "", "other/f": "elsewhere"}))
	must(s.Mkdir("/a/d", 0o700))
	must(s.Symlink("b/c", "/a/link"))
	must(s.Rename("/a/b/c", "/a/d/c2"))
	uid := uint32(7)
	must(s.SetAttr("/a/d/c2", memfs.SetAttr{UID: &uid}))
	if data, err := s.ReadFile("a/d/c2"); err != nil || string(data) != "contents" {
		t.Errorf("%q, %v", data, err)
	}
	buf := make([]byte, 3)
	if n, err := s.ReadAt("/a/d/c2", buf, 3); err != nil || string(buf[:n]) != "ten" {
		t.Errorf("%q, %v", buf[:n], err)
	}
	must(s.WriteFile("/a/d/c2", []byte("shorter"), 0))
	if a, err := s.Stat("/a/d/c2"); err != nil || a.Size != 7 || a.UID != 7 || a.Mode != 0o644 {
		t.Errorf("%+v, %v", a, err)
	}
	if target, err := s.ReadLink("/a/link"); err != nil || target != "b/c" {
		t.Errorf("%q, %v", target, err)
	}
	if names, err := s.ReadDir("/a"); err != nil || !slices.Equal(names, []string{"b", "d", "link"}) {
		t.Errorf("%q, %v", names, err)
	}
	must(s.Remove("/a/link"))
	c := newTester(t, s, "c")
	if fh, err := s.Handle("/other/f"); err != nil || string(fh) != string(c.lookup("other", "f")) {
		t.Errorf("%x, %v", fh, err)
	}
	must(s.SetSpace("/other", 8192))
	if err := s.WriteFile("/other/g", make([]byte, 8192), 0); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("beyond the space: %v", err)
	}
	for what, err := range map[string]error{
		"stat": func() error { _, err := s.Stat("/none"); return err }(), "remove": s.Remove("/none"),
		"mkdir": s.Mkdir("/none/x", 0), "rename": s.Rename("/none", "/x"), "write": s.WriteFile("/none/x", nil, 0),
		"setattr": s.SetAttr("/none", memfs.SetAttr{}), "read": func() error { _, err := s.ReadFile("/none"); return err }(),
	} {
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/none") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.Rename("/a/d", "/other/d"); err == nil {
		t.Error("renamed across file systems")
	}
}

func TestLeaksTellsWhat(t *testing.T) {
	s := newServer(t, Options{})
	c := newTester(t, s, "c")
	fh, open := c.opened(createArgs("owner", "f", nfs4.ShareAccessBoth))
	c.ok(putFH(fh), lockArgs(open.StateID, "p", nfs4.WriteLock, 0, 1))
	left := s.Leaks()
	for _, want := range []string{"1 connections", "1 clients", "1 sessions", "1 opens", "1 locked ranges", "1 delegations",
		`open of file 2, access 3, seq 1, owner "owner"`, "LOCK 0+1"} {
		if !strings.Contains(left, want) {
			t.Errorf("%q is not in %s", want, left)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := s.WaitClean(ctx); err == nil || !strings.Contains(err.Error(), "1 opens") {
		t.Errorf("%v", err)
	}
	c.ok(putFH(fh), closeArgs(open.StateID))
	c.leave()
}

func TestOwnerNames(t *testing.T) {
	s := newServer(t, Options{
		OwnerName: func(id uint32, group bool) string {
			if group {
				return "group@example"
			}
			return "user@example"
		},
		OwnerID: func(name string, group bool) (uint32, bool) { return 42, name == "user@example" && !group },
	})
	c := newTester(t, s, "c")
	if a := c.attrs(c.lookup(), nfs4.AttrOwner, nfs4.AttrOwnerGroup); a.Owner != "user@example" || a.OwnerGroup != "group@example" {
		t.Errorf("%q %q", a.Owner, a.OwnerGroup)
	}
	set := nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrOwner), Owner: "user@example"}
	c.ok(putRoot(), &nfs4.SetAttrArgs{Attrs: set})
	if a, _ := s.Stat("/"); a.UID != 42 {
		t.Errorf("uid %d", a.UID)
	}
	set.Owner = "nobody@example"
	c.fails(nfs4.ErrBadOwner, putRoot(), &nfs4.SetAttrArgs{Attrs: set})
}

func TestStopAccepting(t *testing.T) {
	s := newServer(t, Options{})
	dial := dialers(t, s)
	for _, road := range []string{"tcp", "rdma"} {
		c, err := dial[road](nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := null(c); err != nil { // it has been accepted by now
			t.Fatal(err)
		}
		s.StopAccepting()
		if other, err := dial[road](nil); err == nil {
			other.Close()
			t.Errorf("%s: connected", road)
		}
		if err := null(c); err != nil {
			t.Errorf("%s: the old connection: %v", road, err)
		}
		if err := s.StartAccepting(); err != nil {
			t.Fatal(err)
		}
		other, err := dial[road](nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := null(other); err != nil {
			t.Error(err)
		}
		other.Close()
	}
}

// A connection that somebody else has made is served until it ends.
func TestServeConn(t *testing.T) {
	s := newServer(t, Options{})
	refused := errors.New("refused")
	if err := s.ServeConn("none", func(context.Context, ulb.Handler) (Conn, error) { return nil, refused }); err != refused {
		t.Errorf("%v", err)
	}
	front := newServer(t, Options{}) // lends its transport
	made := make(chan *LocalConn, 1)
	done := make(chan error, 1)
	go func() {
		done <- s.ServeConn("lent", func(ctx context.Context, h ulb.Handler) (Conn, error) {
			c, err := front.Dial(ctx, h)
			made <- c
			return c, err
		})
	}()
	c := <-made
	waitFor(t, func() bool { return s.Usage().Connections == 1 })
	front.Disconnect()
	<-c.Done()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := s.Usage().Connections; n != 0 {
		t.Errorf("%d connections", n)
	}
}
