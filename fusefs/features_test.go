package fusefs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"nfsrdma-fuse/fusefs/conformance"
	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/xdr/nfs4"
)

// nfsArgs say which embedded server the backend "nfs" mounts, as JSON.
type nfsArgs struct {
	Road        string
	Minor       uint32 // of the client
	Exports     []nfstest.Export
	Unsupported []nfs4.OpNum
	NoXattrs    bool
	NoACLs      bool
	Fail        []failure
	// Want are operations that must have been used when the mount ends.
	Want []nfs4.OpNum
}

// failure makes the next N operations of a kind fail.
type failure struct {
	Op     nfs4.OpNum
	Status nfs4.Status
	N      int
}

func (a nfsArgs) arg(t *testing.T) string {
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func init() {
	helperBackends["nfs"] = func(h helperArgs) (*FS, func() error, error) {
		var a nfsArgs
		if err := json.Unmarshal([]byte(h.Arg), &a); err != nil {
			return nil, nil, err
		}
		n, err := startNFS(a.Road, nfstest.Options{
			Exports: a.Exports, Unsupported: a.Unsupported, NoXattrs: a.NoXattrs, NoACLs: a.NoACLs,
		}, nfsclient.Options{Log: h.Options.Log, MinorVersion: a.Minor})
		if err != nil {
			return nil, nil, err
		}
		for _, f := range a.Fail {
			n.server.FailNext(f.Op, f.Status, f.N)
		}
		root, attrs := n.client.Root()
		fs, err := Mount(h.Dir, n.client, root, attrs, h.Options)
		if err != nil {
			return nil, nil, errors.Join(err, n.stop())
		}
		return fs, func() error {
			used := make(map[nfs4.OpNum]bool)
			for _, s := range n.client.Stats().Ops {
				used[s.Op] = true
			}
			var err error
			for _, op := range a.Want {
				if !used[op] {
					err = errors.Join(err, fmt.Errorf("%v was never used", op))
				}
			}
			return errors.Join(err, n.stop())
		}, nil
	}
}

// featureCases are the cases that skip themselves where a file system does not
// offer what they try.
var featureCases = []string{
	"Fallocate", "FallocateErrors", "PunchHole", "ZeroRange", "SeekDataHole", "CopySparseFile", "CopyFileRange",
	"CopyFileRangeLarge", "CopyFileRangeErrors", "Xattrs", "XattrSizes", "XattrLists", "XattrPermissions",
	"XattrNamespaces", "NFS4ACL",
}

// TestFeatures: the embedded server offers everything, so that nothing may be
// skipped.
func TestFeatures(t *testing.T) {
	haveFUSE(t)
	o := small
	o.Only = featureCases
	o.Report = func(c conformance.Outcome) {
		if c.Skipped != "" && (os.Geteuid() == 0 || !strings.Contains(c.Skipped, "root")) {
			t.Errorf("%s was skipped: %s", c.Case, c.Skipped)
		}
	}
	for _, k := range []nfsArgs{
		{Road: "tcp", Want: []nfs4.OpNum{nfs4.OpAllocate, nfs4.OpDeallocate, nfs4.OpSeek, nfs4.OpClone, nfs4.OpListXattrs}},
		{Road: "iwarp", Unsupported: []nfs4.OpNum{nfs4.OpClone}, Want: []nfs4.OpNum{nfs4.OpCopy}},
	} {
		t.Run(k.Road, func(t *testing.T) {
			t.Parallel()
			conformance.Run(t, helper(t, "nfs", k.arg(t), Options{AllowOther: true}), o)
		})
	}
}

// TestWithoutFeatures: what the server does not have is refused, or done in
// another way.
func TestWithoutFeatures(t *testing.T) {
	haveFUSE(t)
	ops := []nfs4.OpNum{nfs4.OpAllocate, nfs4.OpDeallocate, nfs4.OpSeek, nfs4.OpCopy, nfs4.OpClone}
	for name, k := range map[string]nfsArgs{
		"4.1":           {Road: "tcp", Minor: 1, NoACLs: true},
		"not supported": {Road: "tcp", Unsupported: ops, NoXattrs: true, NoACLs: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := helper(t, "nfs", k.arg(t), Options{AllowOther: true})
			o := small
			o.Only = featureCases
			skipped := make(map[string]bool)
			o.Report = func(c conformance.Outcome) { skipped[c.Case] = c.Skipped != "" }
			conformance.Run(t, dir, o)
			for _, c := range featureCases {
				plain := strings.HasPrefix(c, "Copy") || strings.HasPrefix(c, "Seek")
				if skipped[c] == plain {
					t.Errorf("%s: skipped %v", c, skipped[c])
				}
			}
			// Asked again, since the kernel remembers some answers.
			p := filepath.Join(dir, "file")
			if err := os.WriteFile(p, []byte("content"), 0o666); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(p, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			fd := int(f.Fd())
			for what, err := range map[string]error{
				"setxattr":  unix.Setxattr(p, "user.a", nil, 0),
				"fallocate": unix.Fallocate(fd, 0, 0, 10),
				"punch":     unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 10),
			} {
				if !errors.Is(err, unix.EOPNOTSUPP) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if at, err := unix.Seek(fd, 3, unix.SEEK_DATA); at != 3 || err != nil {
				t.Errorf("SEEK_DATA: %d, %v", at, err)
			}
			if at, err := unix.Seek(fd, 3, unix.SEEK_HOLE); at != 7 || err != nil {
				t.Errorf("SEEK_HOLE: %d, %v", at, err)
			}
		})
	}
}

// TestACLOfMinorVersion1: ACLs need no minor version 2.
func TestACLOfMinorVersion1(t *testing.T) {
	haveFUSE(t)
	o := small
	o.Only = []string{"NFS4ACL"}
	o.Report = func(c conformance.Outcome) {
		if c.Skipped != "" {
			t.Errorf("%s was skipped: %s", c.Case, c.Skipped)
		}
	}
	conformance.Run(t, helper(t, "nfs", nfsArgs{Road: "tcp", Minor: 1}.arg(t), Options{AllowOther: true}), o)
}

// TestSecurityLabel: the server's label shows as security.selinux where the
// running kernel leaves that to the file system.
func TestSecurityLabel(t *testing.T) {
	haveFUSE(t)
	p := filepath.Join(helper(t, "tcp", "", Options{}), "file")
	if err := os.WriteFile(p, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/sys/fs/selinux/enforce"); err == nil {
		t.Skip("this kernel has SELinux, which answers for the attribute itself")
	}
	label := "system_u:object_r:tmp_t:s0\x00"
	if err := unix.Setxattr(p, xattrLabel, []byte(label), 0); err != nil {
		t.Fatal(err)
	}
	if v := make([]byte, 100); true {
		if n, err := unix.Getxattr(p, xattrLabel, v); err != nil || string(v[:n]) != label {
			t.Errorf("%q, %v", v[:max(n, 0)], err)
		}
	}
	if err := unix.Removexattr(p, xattrLabel); !errors.Is(err, unix.EACCES) {
		t.Errorf("remove: %v", err)
	}
}

func TestXattrName(t *testing.T) {
	for _, k := range []struct {
		attr, kind, name string
		err              error
	}{
		{"user.a", xattrUser, "a", nil}, {"user.user.a", xattrUser, "user.a", nil}, {"user.", "", "", unix.EINVAL},
		{"system.nfs4_acl", xattrACL, "", nil}, {"security.selinux", xattrLabel, "", nil},
		{"system.nfs4_acls", "", "", unix.EOPNOTSUPP}, {"security.capability", "", "", unix.EOPNOTSUPP},
		{"trusted.a", "", "", unix.EOPNOTSUPP}, {"system.posix_acl_access", "", "", unix.EOPNOTSUPP}, {"user", "", "", unix.EOPNOTSUPP},
	} {
		kind, name, err := xattrName(k.attr)
		if got := fmt.Sprint(kind, name, err); got != fmt.Sprint(k.kind, k.name, k.err) {
			t.Errorf("%q: %s", k.attr, got)
		}
	}
}
