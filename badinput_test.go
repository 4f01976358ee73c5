package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nfsrdma-fuse/nfsclient/nfstest"
)

// oneLine checks that a failed run said exactly one line, which contains each
// of the words.
func oneLine(t *testing.T, r result, status int, words ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("exit status %d, want %d (%s)", r.status, status, r.stderr)
	}
	if strings.Count(r.stderr, "\n") != 1 || !strings.HasSuffix(r.stderr, "\n") {
		t.Errorf("want one line on standard error, got %q", r.stderr)
	}
	for _, w := range words {
		if !strings.Contains(r.stderr, w) {
			t.Errorf("the message %q does not mention %q", r.stderr, w)
		}
	}
	t.Logf("%d: %s", r.status, strings.TrimSpace(r.stderr))
}

// TestBadCommandLine: mistakes that are found before anything is sent.
func TestBadCommandLine(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		args   []string
		status int
		words  []string
	}{
		{"no arguments", nil, exitUsage, []string{"SERVER:/EXPORT DIRECTORY"}},
		{"no directory", []string{"host:/"}, exitUsage, []string{"SERVER:/EXPORT DIRECTORY"}},
		{"no colon", []string{"host", dir}, exitUsage, []string{`"host"`, "no colon"}},
		{"unknown option", []string{"host:/", dir, "-o", "rsiz=4096"}, exitUsage, []string{`"rsiz"`, `"rsize"`}},
		{"bad value", []string{"-o", "port=http", "host:/", dir}, exitUsage, []string{"port=http", "65535"}},
		{"wrong version", []string{"host:/", dir, "-o", "vers=3"}, exitUsage, []string{"vers=3", "4.1 and 4.2"}},
		{"unknown flag", []string{"host:/", dir, "-Z"}, exitUsage, []string{"-Z"}},
		{"mount point missing", []string{"host:/", dir + "/missing"}, exitMount, []string{"does not exist", "mkdir"}},
		{"mount point a file", []string{"host:/", file}, exitMount, []string{file, "not a directory"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			oneLine(t, runProgram(t, "mount.nfsrdma-fuse", c.args...), c.status, c.words...)
		})
	}
	oneLine(t, runProgram(t, "nfsrdma-fuse", "mont"), exitUsage, `"mont"`)
	oneLine(t, runProgram(t, "nfsrdma-fuse", "umount"), exitUsage, "one directory")
}

// TestServerRefuses: what an honest server or network answers to a mount that
// cannot be.
func TestServerRefuses(t *testing.T) {
	needFUSE(t)
	_, port := startServer(t, nfstest.Options{})
	dir := t.TempDir()
	for _, c := range []struct {
		name, spec, options string
		words               []string
	}{
		{"unknown host", "no-such-host.invalid:/", "timeo=100", []string{"no-such-host.invalid"}},
		{"refused port", "127.0.0.1:/", "port=1", []string{"127.0.0.1:1", "refuse"}},
		{"refused port over TCP", "127.0.0.1:/", "proto=tcp,port=1", []string{"127.0.0.1:1", "refuse"}},
		{"no such export", "127.0.0.1:/no/such", "port=" + port, []string{"/no/such", "no such export"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			oneLine(t, runProgram(t, "mount.nfsrdma-fuse", c.spec, dir, "-o", c.options), exitMount, c.words...)
			if ours, _ := isOurMount(dir); ours {
				t.Error("it is mounted nevertheless")
			}
		})
	}
}
