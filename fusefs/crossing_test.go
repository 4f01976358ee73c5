package fusefs

import (
	"strings"
	"testing"

	"nfsrdma-fuse/nfsclient/nfstest"
)

// TestFileSystemsOfServer: an export with other file systems of the server in
// it, whose file numbers are the same, shows as one with numbers that are unique,
// the same in listings, and the same from mount to mount.
func TestFileSystemsOfServer(t *testing.T) {
	p := mountPairOf(t, nfstest.Options{Exports: []nfstest.Export{{Path: "/"}, {Path: "/data/one"}, {Path: "/data/two"}}}, Options{})
	p.sh(t, `for d in . data/one data/two; do mkdir "$1/$d/dir"; echo text >"$1/$d/dir/file"; ln "$1/$d/dir/file" "$1/$d/dir/link"; done`)
	const numbers = `find . -printf '%i %p\n' | sort -k 2`
	list := p.sh(t, `cd "$1"; `+numbers)
	if other := p.sh(t, `cd "$2"; `+numbers); other != list {
		t.Errorf("numbers on one mount:\n%son another:\n%s", list, other)
	}
	// ls -i takes them from the listing, stat from the attributes.
	if listed, found := p.sh(t, `cd "$2"; for d in . data data/one data/two data/one/dir; do ls -fi1 $d | grep -v ' \.\.*$' | while read i n; do echo $i; done; done`),
		p.sh(t, `cd "$2"; for d in . data data/one data/two data/one/dir; do ls -f1 $d | grep -v '^\.\.*$' | while read n; do stat -c %i $d/$n; done; done`); listed != found {
		t.Errorf("numbers in listings:\n%sof the files themselves:\n%s", listed, found)
	}
	seen := make(map[string]string)
	for line := range strings.Lines(list) {
		number, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		path = strings.TrimSuffix(strings.TrimSuffix(path, "/link"), "/file") + strings.Repeat(" (file)", strings.Count(path, "/file")+strings.Count(path, "/link"))
		if other, ok := seen[number]; ok && other != path {
			t.Errorf("%q and %q have the number %s", path, other, number)
		}
		seen[number] = path
	}
	if want := 1 + 1 + 2 + 3*2; len(seen) != want {
		t.Errorf("%d numbers, expected %d:\n%s", len(seen), want, list)
	}
	// Each has its own space, and nothing moves from one to the other by name.
	for path, size := range map[string]int64{"/": 1 << 30, "/data/one": 1 << 31, "/data/two": 1 << 32} {
		if err := p.server.SetSpace(path, size); err != nil {
			t.Fatal(err)
		}
		got := p.sh(t, `stat -f -c '%b %S' "$1`+path+`/dir/file" | { read n s; echo $((n*s)); }`)
		if want := map[int64]string{1 << 30: "1073741824", 1 << 31: "2147483648", 1 << 32: "4294967296"}[size]; strings.TrimSpace(got) != want {
			t.Errorf("%s has %s bytes, expected %s", path, strings.TrimSpace(got), want)
		}
	}
	if out, err := sh(`ln "$1/data/one/dir/file" "$1/data/two/dir/other"`, p.a); err == nil || !strings.Contains(out, "cross-device") {
		t.Errorf("a link from one file system to another: %v %s", err, out)
	}
	p.sh(t, `mv "$1/data/one/dir/file" "$1/data/two/dir/moved"; test "$(cat "$2/data/two/dir/moved")" = text; test ! -e "$1/data/one/dir/file"`)
}
