package fusefs

import (
	"context"
	"strings"
	"testing"
	"time"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/xdr/nfs4"
)

// Tests in this file mount one embedded server twice, as two machines would,
// and use the mounts by other processes only.

// pair is a server with two mounts.
type pair struct {
	server *nfstest.Server
	a, b   string            // mount points
	fs     *FS               // that on a
	client *nfsclient.Client // of that on a
}

func mountPair(t *testing.T, o Options) *pair {
	t.Helper()
	return mountPairOf(t, nfstest.Options{}, o)
}

func mountPairOf(t *testing.T, so nfstest.Options, o Options) *pair {
	t.Helper()
	haveFUSE(t)
	first, err := startNFS("tcp", so, nfsclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := first.another()
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{server: first.server, client: first.client, a: t.TempDir(), b: t.TempDir()}
	mount := func(n *nfs, dir string) *FS {
		root, attrs := n.client.Root()
		fs, err := Mount(dir, n.client, root, attrs, o)
		if err != nil {
			t.Fatal(err)
		}
		return fs
	}
	p.fs = mount(first, p.a)
	fsb := mount(second, p.b)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, fs := range []*FS{p.fs, fsb} {
			if err := fs.Unmount(ctx); err != nil {
				t.Error(err)
			}
			if err := fs.leaks(); err != nil {
				t.Error(err)
			}
		}
		if err := second.leave(); err != nil {
			t.Error(err)
		}
		if err := first.stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// sh runs a script with the two mount points as $1 and $2, which must not fail,
// and returns what it prints.
func (p *pair) sh(t *testing.T, script string) string {
	t.Helper()
	out, err := sh("set -e; "+script, p.a, p.b)
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

// count runs a script and returns how many requests of some operations that
// took.
func (p *pair) count(t *testing.T, script string, ops ...nfs4.OpNum) (n uint64) {
	t.Helper()
	before := make(map[nfs4.OpNum]uint64)
	for _, op := range ops {
		before[op] = p.server.Count(op)
	}
	p.sh(t, script)
	for _, op := range ops {
		n += p.server.Count(op) - before[op]
	}
	return n
}

// look makes the kernel ask for the attributes of the directory, as it does
// when their time is over.
const look = `stat --cached=never "$1" >/dev/null; `

// TestMissingNames: a name that does not exist is asked for once, until somebody
// makes it.
func TestMissingNames(t *testing.T) {
	p := mountPair(t, Options{})
	const absent = `test ! -e "$1/name"; `
	if n := p.count(t, absent+absent+absent, nfs4.OpLookup); n != 1 {
		t.Errorf("%d LOOKUPs of a missing name that was asked for three times", n)
	}
	p.sh(t, `: >"$1/other"; mkdir "$1/dir"; mv "$1/other" "$1/dir/"; rm -r "$1/dir"; `+look)
	if n := p.count(t, absent, nfs4.OpLookup); n != 0 {
		t.Errorf("%d LOOKUPs of a missing name after own changes", n)
	}
	if n := p.count(t, `: >"$1/name"; test -e "$1/name"; rm "$1/name"; `+absent, nfs4.OpLookup); n != 0 {
		t.Errorf("%d LOOKUPs of a name that this mount itself made and removed", n)
	}
	p.sh(t, `echo theirs >"$2/name"; `+look+`test -e "$1/name"; test "$(cat "$1/name")" = theirs`)
	p.sh(t, `rm "$2/name"; `+look+absent)
	if s := p.fs.Stats(); s.NamesMissing == 0 || s.NamesExpired == 0 {
		t.Errorf("counters: %+v", s)
	}
}

// TestMissingNameRunsOut: a name that another client makes is found without
// anything being done when the directory's attributes have run out.
func TestMissingNameRunsOut(t *testing.T) {
	p := mountPair(t, Options{AcDirMin: 100 * time.Millisecond, AcDirMax: 100 * time.Millisecond})
	p.sh(t, `test ! -e "$1/name"; : >"$2/name"; i=0; until test -e "$1/name"; do i=$((i+1)); test $i -lt 100000; done`)
}

// TestLookupCache: what is remembered under each setting of lookupcache.
func TestLookupCache(t *testing.T) {
	for _, c := range []struct {
		o                Options
		missing, present uint64 // LOOKUPs for three uses of a name
	}{
		{Options{}, 1, 1},
		{Options{LookupCache: LookupCachePositive}, 3, 1},
		{Options{LookupCache: LookupCacheNone}, 3, 3},
		{Options{NoAC: true}, 3, 3},
	} {
		p := mountPair(t, c.o)
		p.sh(t, `: >"$2/file"`)
		const absent, present = `test ! -e "$1/name"; `, `test -e "$1/file"; `
		if n := p.count(t, absent+absent+absent, nfs4.OpLookup); n != c.missing {
			t.Errorf("%+v: %d LOOKUPs of a missing name, expected %d", c.o, n, c.missing)
		}
		if n := p.count(t, present+present+present, nfs4.OpLookup); n != c.present {
			t.Errorf("%+v: %d LOOKUPs of a name, expected %d", c.o, n, c.present)
		}
	}
}

// TestCloseToOpen: who opens a file after another client has closed it sees what
// that wrote, however long names and attributes may be kept.
func TestCloseToOpen(t *testing.T) {
	p := mountPair(t, Options{})
	check := func(what, change, want string) {
		t.Helper()
		got := p.sh(t, change+`; cat "$1/file"`)
		if got != want {
			t.Errorf("%s: read %q, expected %q", what, got, want)
		}
		if got := p.sh(t, `stat -c %s "$1/file"; stat --cached=never -c %s "$1/file"`); len(strings.Fields(got)) != 2 || strings.Fields(got)[0] != strings.Fields(got)[1] {
			t.Errorf("%s: the size is %q after the open", what, got)
		}
	}
	check("written", `printf first >"$2/file"`, "first")
	check("longer", `printf ' and second' >>"$2/file"`, "first and second")
	check("shorter", `printf one >"$2/file"`, "one")
	check("as long", `printf two >"$2/file"`, "two")
	check("replaced", `printf new >"$2/tmp"; mv "$2/tmp" "$2/file"`, "new")
	check("moved away, and another in its place", `mv "$2/file" "$2/old"; printf another >"$2/file"`, "another")
	if out, err := sh(`rm "$2/file"; cat "$1/file"`, p.a, p.b); err == nil {
		t.Errorf("a file that another client has removed is opened: %q", out)
	}
}

// TestNamesExpire: when a directory is seen to have been changed by another
// client, names are asked for again, and who works in there stays where he is.
func TestNamesExpire(t *testing.T) {
	p := mountPair(t, Options{})
	p.sh(t, `mkdir "$1/dir"; : >"$1/x"; cd "$1/dir"; test -e ../x; mkdir "$2/dir/sub"; mv "$2/x" "$2/y"; `+
		look+`test ! -e ../x; test -e ../y; test "$(/bin/pwd)" = "$1/dir"; test -e sub; : >here; test -e "$2/dir/here"`)
}

// TestReadAfterOwnWrite counts what reading a file takes that this mount has just
// written.
func TestReadAfterOwnWrite(t *testing.T) {
	p := mountPair(t, Options{})
	p.sh(t, `printf mine >"$1/file"`)
	if n := p.count(t, `stat "$1/file" >/dev/null; test "$(cat "$1/file")" = mine`, nfs4.OpLookup, nfs4.OpAccess); n != 0 {
		t.Errorf("%d requests for the name", n)
	}
	if s := p.fs.Stats(); s.AttrsAtHand == 0 {
		t.Errorf("counters: %+v", s)
	}
}

// TestNoAC: without a cache of attributes, what another client does is seen at
// once, and a write is on stable storage when it returns.
func TestNoAC(t *testing.T) {
	p := mountPair(t, Options{NoAC: true})
	p.sh(t, `: >"$1/file"; exec 3<"$1/file"; for i in 1 2 3; do
		printf x >>"$2/file"; test "$(stat -c %s "$1/file")" = $i; : >"$2/$i"; test -e "$1/$i"; rm "$2/$i"; test ! -e "$1/$i"; done`)
	if n := p.count(t, `dd if=/dev/zero of="$1/file" bs=4k count=3 conv=notrunc status=none`, nfs4.OpCommit); n != 0 {
		t.Errorf("%d COMMITs of data that should be stable", n)
	}
}

// TestNoCTO: without close-to-open, a file is read from the cache as long as its
// attributes are trusted, and not longer.
func TestNoCTO(t *testing.T) {
	p := mountPairOf(t, nfstest.Options{Delegations: nfstest.DelegateNever}, Options{NoCTO: true})
	p.sh(t, `printf old >"$1/file"; cat "$1/file" >/dev/null; stat "$1/file" >/dev/null`)
	if got := p.sh(t, `printf new >"$2/file"; cat "$1/file"`); got != "old" {
		t.Errorf("read %q, expected what is cached", got)
	}
	if got := p.sh(t, `stat --cached=never "$1/file" >/dev/null; cat "$1/file"`); got != "new" {
		t.Errorf("read %q after the attributes were asked for", got)
	}
}

// TestSyncWrites: what is written with O_SYNC is stable without a COMMIT.
func TestSyncWrites(t *testing.T) {
	p := mountPair(t, Options{})
	if n := p.count(t, `dd if=/dev/zero of="$1/file" bs=4k count=3 oflag=sync status=none`, nfs4.OpCommit); n != 0 {
		t.Errorf("%d COMMITs of data that should be stable", n)
	}
}
