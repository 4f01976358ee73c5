package fusefs

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/xdr/nfs4"
)

// requests returns the COMPOUNDs since event n, each by the name of the operation that it
// is about, in order.
func requests(s *nfstest.Server, n uint64) (all []string) {
	for _, e := range s.Events(n) {
		if e.Callback {
			continue
		}
		name := "SEQUENCE"
		for _, o := range e.Ops {
			switch o.Op {
			case nfs4.OpSequence, nfs4.OpPutFH, nfs4.OpPutRootFH, nfs4.OpSaveFH:
				continue
			}
			name = o.Op.String()
			break
		}
		all = append(all, name)
	}
	return all
}

// TestRequests counts the requests that operations of users take at the most,
// for each file. The kernel's NFS client takes LOOKUP, OPEN, SETATTR, WRITE and
// CLOSE to copy a small file in.
func TestRequests(t *testing.T) {
	const files = 20
	p := mountPair(t, Options{})
	src := t.TempDir()
	for i := range files {
		if err := os.WriteFile(fmt.Sprintf("%s/f%02d", src, i), []byte(strings.Repeat("line\n", 100+i)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.server.MkdirAll("/dir/deep"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, script string
		fixed        int // requests whatever the number of files
		each         int // further requests for each file
	}{
		// LOOKUP, OPEN, WRITE, CLOSE; other servers need a SETATTR after an exclusive OPEN
		{"copying in", `cp ` + src + `/* "$1/dir/"`, 4, 4},
		{"copying out what was just copied in", `cat "$1"/dir/f* >/dev/null`, 3, 3}, // OPEN, READ, CLOSE
		{"copying out again", `cat "$1"/dir/f* >/dev/null`, 3, 2},                   // OPEN, CLOSE
		{"listing", `ls -lR "$1" >/dev/null`, 9, 0},
		{"listing again", `ls -lR "$1" >/dev/null`, 9, 0},
		{"touching", `touch "$1"/dir/f*`, 3, 3},                                       // OPEN, SETATTR, CLOSE
		{"appending a line", `for f in "$1"/dir/f*; do echo line >>"$f"; done`, 3, 3}, // OPEN, WRITE, CLOSE
		{"looking for what is not there", `for i in 1 2 3; do for f in "$1"/dir/f*; do test ! -e "$f.bak"; done; done`, 7, 1},
		{"replacing", `for f in "$1"/dir/f*; do echo new >"$f.new"; mv "$f.new" "$f"; done`, 3, 7},
		// LOOKUP of the new name, OPEN, WRITE, CLOSE, and two LOOKUPs that FUSE makes
		// of a name that is to be replaced, RENAME
		{"removing", `rm -r "$1/dir"`, 9, 1},
	} {
		start := p.server.LastEvent()
		p.sh(t, c.script)
		all := requests(p.server, start)
		kinds := make(map[string]int)
		for _, name := range all {
			kinds[name]++
		}
		var list []string
		for _, name := range slices.Sorted(maps.Keys(kinds)) {
			list = append(list, fmt.Sprintf("%s %.2f", name, float64(kinds[name])/files))
		}
		t.Logf("%s: %.2f requests for each of %d files: %s", c.what, float64(len(all))/files, files, strings.Join(list, ", "))
		if most := c.fixed + c.each*files; len(all) > most {
			t.Errorf("%s: %d requests, expected at most %d: %s", c.what, len(all), most, strings.Join(all, " "))
		}
	}
}
