package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

var toolCases = []Case{
	{"ToolCopyTree", toolCopyTree},
	{"ToolCopyWithin", toolCopyWithin},
	{"ToolListTree", toolListTree},
	{"ToolTar", toolTar},
	{"ToolGit", toolGit},
	{"ToolRemoveTree", toolRemoveTree},
}

// need ends the case if one of the programs is not installed.
func (e *env) need(tools ...string) {
	for _, t := range tools {
		if _, err := exec.LookPath(t); err != nil {
			e.Skipf("%s is not installed", t)
		}
	}
}

// shell runs a script with its arguments as $1, $2, … and returns its output.
// The script changes directory itself: doing it between fork and exec would
// block the runtime (see the package comment).
func (e *env) shell(script string, args ...string) string {
	cmd := exec.Command("/bin/sh", append([]string{"-euc", script, "sh"}, args...)...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=e@example.invalid", "GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=e@example.invalid")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		e.Fatalf("%s (arguments %q): %v\n%s%s", script, args, err, tail(stdout.String()), tail(stderr.String()))
	}
	return stdout.String()
}

func tail(s string) string { return s[max(0, len(s)-2000):] }

// outside returns a directory on a local file system.
func (e *env) outside() string {
	dir, err := os.MkdirTemp("", "conformance")
	e.ok(err, "temporary directory")
	e.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// tree makes a tree of files of many sizes, with links, and returns the
// digests of its files.
func (e *env) tree(dir string, files int) map[string]string {
	rng := rand.New(rand.NewPCG(e.seed, 99))
	dirs := []string{dir}
	e.ok(os.MkdirAll(dir, 0o777), "mkdir %q", dir)
	for i := range files {
		if i%10 == 0 {
			d := filepath.Join(dirs[rng.IntN(len(dirs))], fmt.Sprintf("dir %d", i))
			e.ok(os.Mkdir(d, 0o755), "mkdir %q", d)
			dirs = append(dirs, d)
		}
		p := filepath.Join(dirs[rng.IntN(len(dirs))], fmt.Sprintf("file-%d.txt", i))
		e.ok(os.WriteFile(p, pattern(e.seed+uint64(i), 0, make([]byte, rng.IntN(1<<rng.IntN(18)+1))), 0o644), "write %q", p)
		if i%20 == 7 {
			e.ok(os.Symlink(filepath.Base(p), p+".link"), "symlink")
		}
		if i%20 == 13 {
			e.ok(os.Link(p, p+".hard"), "link")
		}
	}
	return e.digests(dir)
}

// digests reads a tree: file digests, link targets and directories by path.
func (e *env) digests(dir string) map[string]string {
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		switch {
		case d.IsDir():
			all[rel] = "directory"
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			all[rel] = "-> " + target
		default:
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(data)
			all[rel] = hex.EncodeToString(sum[:])
		}
		return nil
	})
	e.ok(err, "walk of %q", dir)
	return all
}

// sameTree compares two trees by their digests.
func (e *env) sameTree(what string, got, want map[string]string) {
	paths := make([]string, 0, len(want)+len(got))
	for p := range want {
		paths = append(paths, p)
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	for _, p := range paths {
		if got[p] != want[p] {
			e.Errorf("%s: %q: got %q, expected %q", what, p, got[p], want[p])
		}
	}
}

// toolCopyTree: cp -r in and out again, and sha256sum of all of it.
func toolCopyTree(e *env) {
	e.need("cp", "sha256sum", "find")
	local := e.outside()
	want := e.tree(local+"/src", e.o.TreeFiles)
	e.shell(`cp -r "$1/src" "$2/in"`, local, e.dir)
	e.shell(`cd "$1/src" && find . -type f -exec sha256sum {} + > "$1/sums" && cd "$2/in" && sha256sum -c --quiet "$1/sums"`, local, e.dir)
	e.shell(`cp -r "$2/in" "$1/out"`, local, e.dir)
	e.sameTree("copied in and out", e.digests(local+"/out"), want)
}

// toolCopyWithin: cp and diff from the mount to the mount, and cp -a, which
// keeps times, modes and links.
func toolCopyWithin(e *env) {
	e.need("cp", "diff")
	local := e.outside()
	want := e.tree(local+"/src", e.o.TreeFiles)
	e.shell(`cp -a "$1/src" "$2/exact" && cp -r "$2/exact" "$2/again"`, local, e.dir)
	e.sameTree("copied with cp -a", e.digests(e.path("exact")), want)
	e.shell(`diff -r "$1/src" "$2/again" && diff -r "$2/exact" "$2/again"`, local, e.dir)
}

// toolListTree: ls -lR and find see everything.
func toolListTree(e *env) {
	e.need("ls", "find", "wc", "du")
	want := e.tree(e.path("tree"), e.o.TreeFiles)
	out := e.shell(`ls -lR "$1"`, e.path("tree"))
	lines := 0
	for line := range strings.Lines(out) {
		if len(line) > 10 && strings.ContainsRune("-ld", rune(line[0])) && strings.ContainsRune("r-", rune(line[1])) {
			lines++
		}
		if strings.Contains(line, "?????") {
			e.Errorf("ls -lR: %s", strings.TrimSpace(line))
		}
	}
	if lines != len(want)-1 { // all but the top
		e.Errorf("ls -lR shows %d entries, expected %d", lines, len(want)-1)
	}
	found := e.shell(`find "$1" | wc -l`, e.path("tree"))
	if strings.TrimSpace(found) != fmt.Sprint(len(want)) {
		e.Errorf("find shows %s entries, expected %d", strings.TrimSpace(found), len(want))
	}
	e.shell(`du -s "$1" >/dev/null`, e.path("tree"))
}

// toolTar: tar packs a tree and unpacks it with its times and modes.
func toolTar(e *env) {
	e.need("tar")
	want := e.tree(e.path("tree"), e.o.TreeFiles)
	e.shell(`cd "$1" && tar -cf tree.tar tree && mkdir out && tar -xf tree.tar -C out && tar -df tree.tar -C out`, e.dir)
	e.sameTree("unpacked", e.digests(e.path("out", "tree")), want)
}

// toolGit: a repository is made, cloned both ways, changed, packed and checked.
func toolGit(e *env) {
	e.need("git")
	local := e.outside()
	e.tree(local+"/repo", e.o.TreeFiles)
	e.shell(`cd "$1/repo" && git init -q . && git add -A && git commit -q -m first`, local)
	e.shell(`git clone -q "$1/repo" "$2/clone" && cd "$2/clone" && git fsck --full --strict && git status --porcelain`, local, e.dir)
	e.shell(`cd "$1/clone" && echo change > changed && git add changed && git commit -q -m second && git gc -q && git fsck --full && git checkout -q HEAD~1 && git checkout -q -`, e.dir)
	e.shell(`git clone -q --no-hardlinks "$2/clone" "$1/back" && cd "$1/back" && git fsck --full`, local, e.dir)
	e.shell(`cd "$1" && git clone -q clone linked && cd linked && git fsck --full && git log --oneline | wc -l`, e.dir)
	if out := e.shell(`cd "$1/clone" && git status --porcelain`, e.dir); out != "" {
		e.Errorf("git status after all: %s", out)
	}
	want := e.digests(e.path("clone"))
	got := e.digests(local + "/back")
	for p := range want {
		if p == ".git" || strings.HasPrefix(p, ".git/") {
			delete(want, p)
		}
	}
	for p := range got {
		if p == ".git" || strings.HasPrefix(p, ".git/") {
			delete(got, p)
		}
	}
	e.sameTree("cloned back", got, want)
}

// toolRemoveTree: rm -rf and mv of trees leave nothing behind.
func toolRemoveTree(e *env) {
	e.need("rm", "mv")
	want := e.tree(e.path("tree"), e.o.TreeFiles)
	e.shell(`mkdir "$1/d" && mv "$1/tree" "$1/d/moved"`, e.dir)
	e.sameTree("moved", e.digests(e.path("d", "moved")), want)
	e.shell(`rm -rf "$1/d"`, e.dir)
	e.names(e.dir)
}
