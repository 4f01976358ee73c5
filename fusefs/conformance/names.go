package conformance

import (
	"strings"

	"golang.org/x/sys/unix"
)

var nameCases = []Case{
	{"OddNames", oddNames},
	{"LongNames", longNames},
	{"CaseAndForm", caseAndForm},
}

// oddNames: every byte but slash and zero can stand in a name.
func oddNames(e *env) {
	all := []string{
		" ", "a b", " leading", "trailing ", "tab\there", "new\nline", "\r", "-rf", "--", "*", "?", "[a]",
		"quote'", "double\"", "back\\slash", "$HOME", "`x`", ";", "|", "&", "#", "~", "%s%n", "...", "..a", ".hidden",
		"ünïcödé", "日本語", "😀", "\xff", "\xfe\xff\x80", "a\xc3", "\xed\xa0\x80", "\x01\x02\x7f", "nul\\0", "con", "a:b", "x.",
		".nfs", "nfs4", "lost+found",
	}
	var every []byte
	for b := 1; b < 256; b++ {
		if b != '/' {
			every = append(every, byte(b))
		}
	}
	all = append(all, string(every[:127]), string(every[127:]))
	for i, name := range all {
		content := pattern(e.seed, int64(i), make([]byte, 20))
		e.create(e.path(name), content)
		e.content(e.path(name), content)
	}
	e.names(e.dir, all...)
	e.mkdir(e.dir + "2")
	e.Cleanup(func() { unix.Rmdir(e.dir + "2") })
	for _, name := range all {
		e.ok(unix.Rename(e.path(name), e.dir+"2/"+name), "rename %q", name)
	}
	e.names(e.dir+"2", all...)
	for _, name := range all {
		e.ok(unix.Unlink(e.dir+"2/"+name), "unlink %q", name)
	}
	e.names(e.dir + "2")
}

// longNames: names of 255 bytes work everywhere, longer ones nowhere.
func longNames(e *env) {
	for i, n := range []int{1, 128, 254, 255} {
		name := strings.Repeat(string(rune('a'+i)), n)
		e.create(e.path(name), nil)
		e.names(e.dir, name)
		other := strings.Repeat("X", n)
		e.ok(unix.Rename(e.path(name), e.path(other)), "rename of a name of %d bytes", n)
		e.ok(unix.Link(e.path(other), e.path(name)), "link with a name of %d bytes", n)
		e.ok(unix.Unlink(e.path(other)), "unlink of a name of %d bytes", n)
		e.ok(unix.Unlink(e.path(name)), "unlink of a name of %d bytes", n)
		e.mkdir(e.path(name))
		e.ok(unix.Symlink("x", e.path(name, name)), "symlink with a name of %d bytes", n)
		e.ok(unix.Unlink(e.path(name, name)), "unlink")
		e.ok(unix.Rmdir(e.path(name)), "rmdir of a name of %d bytes", n)
	}
	long := strings.Repeat("l", 256)
	var st unix.Stat_t
	e.create(e.path("file"), nil)
	_, err := unix.Open(e.path(long), unix.O_CREAT|unix.O_RDWR, 0o644)
	e.fails(err, "create with a name of 256 bytes", unix.ENAMETOOLONG)
	e.fails(unix.Lstat(e.path(long), &st), "lstat of a name of 256 bytes", unix.ENAMETOOLONG)
	e.fails(unix.Mkdir(e.path(long), 0o777), "mkdir with a name of 256 bytes", unix.ENAMETOOLONG)
	e.fails(unix.Symlink("x", e.path(long)), "symlink with a name of 256 bytes", unix.ENAMETOOLONG)
	e.fails(unix.Mkfifo(e.path(long), 0o666), "mkfifo with a name of 256 bytes", unix.ENAMETOOLONG)
	e.fails(unix.Link(e.path("file"), e.path(long)), "link with a name of 256 bytes", unix.ENAMETOOLONG)
	e.fails(unix.Rename(e.path("file"), e.path(long)), "rename to a name of 256 bytes", unix.ENAMETOOLONG)
	e.fails(unix.Unlink(e.path(long)), "unlink of a name of 256 bytes", unix.ENAMETOOLONG)
	e.fails(unix.Rmdir(e.path(long)), "rmdir of a name of 256 bytes", unix.ENAMETOOLONG)
	e.fails(unix.Lstat(e.dir+strings.Repeat("/.", 2100), &st), "lstat of a path of more than 4096 bytes", unix.ENAMETOOLONG)
	e.names(e.dir, "file")
}

// caseAndForm: names that differ in case, or in the composition of their
// characters, are different names.
func caseAndForm(e *env) {
	all := []string{"name", "NAME", "Name", "\u00e9", "e\u0301", "\u212b", "\u00c5", "A\u030a", "ß", "ss", "SS"}
	for i, name := range all {
		e.create(e.path(name), []byte{byte(i)})
	}
	for i, name := range all {
		e.content(e.path(name), []byte{byte(i)})
	}
	e.names(e.dir, all...)
}
