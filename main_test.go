package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nfsrdma-fuse/nfsclient/nfstest"
)

// runAsProgram makes the test binary behave as the program, so that tests
// run the real command line in processes of their own.
const runAsProgram = "NFSRDMA_FUSE_RUN_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(runAsProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// result is how a run of the program ended.
type result struct {
	status         int
	stdout, stderr string
}

// runProgram runs the program under the given name until it ends; a run that
// takes longer than a minute fails the test.
func runProgram(t *testing.T, name string, args ...string) result {
	t.Helper()
	link := filepath.Join(t.TempDir(), name)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	// Not t.Context(): clean-up runs the program too.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, link, args...)
	cmd.Env = append(os.Environ(), runAsProgram+"=1")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// A background process that kept the output open would otherwise hold up
	// the test for as long as it lives.
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %q: %v\n%s", name, args, err, stderr.String())
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// needFUSE skips the test, with the reason, on machines without FUSE.
func needFUSE(t *testing.T) {
	t.Helper()
	if err := checkFUSE(); err != nil {
		t.Skipf("FUSE mounts are not possible here: %v", err)
	}
}

// startServer returns an embedded server that listens for software RDMA, and
// its port.
func startServer(t *testing.T, o nfstest.Options) (*nfstest.Server, string) {
	t.Helper()
	server := nfstest.NewServer(o)
	t.Cleanup(func() { server.Close() })
	addr, err := server.ListenRDMA("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return server, strconv.Itoa(addr.(*net.TCPAddr).Port)
}

// mountProgram mounts 127.0.0.1:/ with the program in the background and
// unmounts it, if the test has not done so, at the end.
func mountProgram(t *testing.T, options string) (dir string) {
	t.Helper()
	needFUSE(t)
	dir = t.TempDir()
	if r := runProgram(t, "mount.nfsrdma-fuse", "127.0.0.1:/", dir, "-o", options); r.status != 0 || r.stderr != "" {
		t.Fatalf("mounting with %s: exit status %d\n%s", options, r.status, r.stderr)
	}
	t.Cleanup(func() {
		if ours, err := isOurMount(dir); err != nil || !ours {
			return
		}
		if r := runProgram(t, "nfsrdma-fuse", "umount", dir); r.status != 0 {
			t.Errorf("umount: %s", r.stderr)
			runProgram(t, "nfsrdma-fuse", "umount", "--lazy", dir)
		}
	})
	return dir
}

func TestMountAndUnmount(t *testing.T) {
	server, port := startServer(t, nfstest.Options{})
	dir := mountProgram(t, "port="+port)

	if ours, err := isOurMount(dir); err != nil || !ours {
		t.Fatalf("%s is not shown as a %s mount (%v)", dir, fsType, err)
	}
	want := bytes.Repeat([]byte("over the wire "), 100_000)
	if err := os.WriteFile(filepath.Join(dir, "file"), want, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := server.ReadFile("/file"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the server has %d bytes of the file, want %d (%v)", len(got), len(want), err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d bytes back, want %d (%v)", len(got), len(want), err)
	}

	// A second mount on the same directory would hide the first.
	if r := runProgram(t, "mount.nfsrdma-fuse", "127.0.0.1:/", dir, "-o", "port="+port); r.status != exitMount || !strings.Contains(r.stderr, "unmount it first") {
		t.Errorf("second mount on the same directory: status %d, %q", r.status, r.stderr)
	}

	if r := runProgram(t, "nfsrdma-fuse", "umount", dir); r.status != 0 || r.stderr != "" {
		t.Fatalf("umount: status %d\n%s", r.status, r.stderr)
	}
	if ours, _ := isOurMount(dir); ours {
		t.Error("still mounted")
	}
	if rec, err := findRecord(dir); rec != nil || err != nil {
		t.Errorf("the process is still there: %+v, %v", rec, err)
	}
	if left := server.Leaks(); len(left) > 0 {
		t.Errorf("left on the server after unmounting: %v", left)
	}
}

// TestUmountRefuses checks what umount says of directories that are not ours,
// or in use.
func TestUmountRefuses(t *testing.T) {
	if r := runProgram(t, "nfsrdma-fuse", "umount", t.TempDir()); r.status != exitUsage || !strings.Contains(r.stderr, "is not mounted by nfsrdma-fuse") {
		t.Errorf("a directory that is no mount: status %d, %q", r.status, r.stderr)
	}
	_, port := startServer(t, nfstest.Options{})
	dir := mountProgram(t, "port="+port)
	f, err := os.Create(filepath.Join(dir, "open"))
	if err != nil {
		t.Fatal(err)
	}
	r := runProgram(t, "nfsrdma-fuse", "umount", dir)
	if r.status != exitMount || !strings.Contains(r.stderr, "is in use") {
		t.Errorf("a mount in use: status %d, %q", r.status, r.stderr)
	}
	f.Close()
}

func TestReadOnlyMount(t *testing.T) {
	server, port := startServer(t, nfstest.Options{})
	if err := server.WriteFile("/there", []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := mountProgram(t, "ro,port="+port)
	if got, err := os.ReadFile(filepath.Join(dir, "there")); err != nil || string(got) != "before" {
		t.Errorf("read %q, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o644); !strings.Contains(errString(err), "read-only file system") {
		t.Errorf("writing to a read-only mount: %v", err)
	}
}

func errString(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestVersionAndHelp(t *testing.T) {
	if r := runProgram(t, "nfsrdma-fuse", "version"); r.status != 0 || !strings.HasPrefix(r.stdout, "nfsrdma-fuse ") {
		t.Errorf("version: %+v", r)
	}
	for _, args := range [][]string{{"--help"}, {"mount", "--help"}, {}} {
		if r := runProgram(t, "nfsrdma-fuse", args...); r.status != 0 || !strings.Contains(r.stdout, "umount") && !strings.Contains(r.stdout, "wsize=") {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if r := runProgram(t, "mount.nfsrdma-fuse", "--help"); r.status != 0 || !strings.Contains(r.stdout, "rsize=") {
		t.Errorf("mount.nfsrdma-fuse --help: %+v", r)
	}
}
