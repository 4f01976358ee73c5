package fusefs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"nfsrdma-fuse/xdr/nfs4"
)

// Tests in this file mount in this process and use the mount by other
// processes only.

// mountLocal mounts a backend without a network and takes it down again, with a
// look at what is left, when the test ends.
func mountLocal(t *testing.T, o Options) (fs *FS, l *localFS, dir, behind string) {
	t.Helper()
	haveFUSE(t)
	behind, dir = t.TempDir(), t.TempDir()
	l, err := newLocalFS(behind)
	if err != nil {
		t.Fatal(err)
	}
	root, attrs, err := l.rootAttrs()
	if err != nil {
		t.Fatal(err)
	}
	if fs, err = mount(dir, l, root, attrs, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.setHook(nil)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := fs.Unmount(ctx); err != nil {
			t.Error(err)
		}
		if err := fs.leaks(); err != nil {
			t.Error(err)
		}
		if n, m := l.open.Load(), l.pool.InUse(); n != 0 || m != 0 {
			t.Errorf("%d files open at the server, %d buffers in use", n, m)
		}
		l.close()
		if isMounted(dir) {
			t.Errorf("%s is still mounted", dir)
		}
		goleak.VerifyNone(t)
	})
	return fs, l, dir, behind
}

// sh runs a shell script with arguments and returns what it prints.
func sh(script string, args ...string) (string, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "sh"}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func TestMountErrors(t *testing.T) {
	haveFUSE(t)
	l, err := newLocalFS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	root, attrs, err := l.rootAttrs()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir, want string
		attrs     *nfs4.Attrs
		o         Options
	}{
		{filepath.Join(dir, "missing"), "does not exist", attrs, Options{}},
		{plain, "is not a directory", attrs, Options{}},
		{filepath.Join(plain, "x"), "not a directory", attrs, Options{}},
		{dir, "only directories can be mounted", &nfs4.Attrs{Type: nfs4.TypeReg}, Options{Source: "host:/file"}},
		{dir, "unknown mount option \"bogus\"", attrs, Options{Kernel: []string{"bogus"}}},
	} {
		fs, err := mount(c.dir, l, root, c.attrs, c.o)
		if err == nil {
			t.Fatalf("mount on %s succeeded", fs.Dir())
		}
		if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("mount on %s: %q, expected one line with %q", c.dir, err, c.want)
		}
		if isMounted(c.dir) {
			t.Errorf("%s is mounted after an error", c.dir)
		}
	}
	goleak.VerifyNone(t)
}

func TestMountTable(t *testing.T) {
	_, _, dir, _ := mountLocal(t, Options{Source: "server.example:/export, a", ReadOnly: true, AllowOther: true, Kernel: []string{"noexec", "nodev", "noatime"}})
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if f[1] != dir {
			continue
		}
		if f[0] != `server.example:/export,\040a` || f[2] != "fuse.nfsrdma-fuse" {
			t.Errorf("mount table: %s", line)
		}
		for _, want := range []string{"ro", "noexec", "nodev", "noatime", "default_permissions", "allow_other", "max_read=1048576"} {
			if !strings.Contains(","+f[3]+",", ","+want+",") {
				t.Errorf("options %s lack %s", f[3], want)
			}
		}
		out, err := sh(`touch "$1/new"`, dir)
		if err == nil || !strings.Contains(out, "Read-only file system") {
			t.Errorf("touch on a read-only mount: %v %s", err, out)
		}
		return
	}
	t.Errorf("not in the mount table:\n%s", b)
}

func TestReadAheadIsRaised(t *testing.T) {
	fs, _, _, _ := mountLocal(t, Options{ReadAhead: 3 << 20})
	path := "/sys/class/bdi/" + fs.device + "/read_ahead_kb"
	got, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		t.Skipf("read-ahead cannot be set here: %v", err)
	}
	if strings.TrimSpace(string(got)) != "3072" {
		t.Errorf("read-ahead %s, %v, expected 3072", got, err)
	}
}

// user is a process that has a file of the mount open until it is told to
// end, or something happens to it.
type user struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Scanner
}

func startUser(t *testing.T, script string, args ...string) *user {
	t.Helper()
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "sh"}, args...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	u := &user{cmd, stdin, bufio.NewScanner(stdout)}
	if !u.out.Scan() || u.out.Text() != "ready" {
		t.Fatalf("process using the mount said %q", u.out.Text())
	}
	return u
}

func TestUnmountWaitsForUsers(t *testing.T) {
	fs, _, dir, behind := mountLocal(t, Options{})
	if err := os.WriteFile(behind+"/file", []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	u := startUser(t, `exec 3<"$1/file"; echo ready; read x; cat <&3`, dir)
	result := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		result <- fs.Unmount(ctx)
	}()
	for isMounted(dir) { // it is detached while the user still has the file
		time.Sleep(time.Millisecond)
	}
	u.stdin.Close()
	if !u.out.Scan() || u.out.Text() != "content" {
		t.Errorf("the user of a detached mount read %q", u.out.Text())
	}
	if err := u.cmd.Wait(); err != nil {
		t.Errorf("the user of a detached mount: %v", err)
	}
	if err := <-result; err != nil {
		t.Errorf("unmount: %v", err)
	}
}

func TestUnmountCutsUsersOff(t *testing.T) {
	fs, l, dir, behind := mountLocal(t, Options{})
	if err := os.WriteFile(behind+"/file", []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	u := startUser(t, `exec 3<"$1/file"; echo ready; read x; cat <&3 2>&1`, dir)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	start := time.Now()
	err := fs.Unmount(ctx)
	if err == nil || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrNotUnmounted) {
		t.Errorf("unmount in use: %v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("unmount in use took %v", took)
	}
	fs.Wait()
	if n := l.open.Load(); n != 0 {
		t.Errorf("%d files are open at the server", n)
	}
	u.stdin.Close()
	u.out.Scan()
	if !strings.Contains(u.out.Text(), "not connected") && !strings.Contains(u.out.Text(), "abort") {
		t.Errorf("the user of a mount that was cut off read %q", u.out.Text())
	}
	if err := u.cmd.Wait(); err == nil {
		t.Error("the user of a mount that was cut off succeeded")
	}
}

// TestUnmountDeadServer: a server that does not answer any more cannot keep the
// file system mounted, and whoever waits for it gets an error.
func TestUnmountDeadServer(t *testing.T) {
	fs, l, dir, behind := mountLocal(t, Options{CloseTimeout: time.Second})
	if err := os.WriteFile(behind+"/file", bytes.Repeat([]byte("content"), 100_000), 0o644); err != nil {
		t.Fatal(err)
	}
	blocked := make(chan struct{}, 100)
	l.setHook(func(ctx context.Context, op string) error {
		if op != "READ" && op != "CLOSE" {
			return nil
		}
		blocked <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	u := startUser(t, `echo ready; exec cat "$1/file"`, dir)
	<-blocked
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	start := time.Now()
	if err := fs.Unmount(ctx); err == nil {
		t.Error("unmount with a dead server: no error")
	}
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("unmount with a dead server took %v", took)
	}
	if err := u.cmd.Wait(); err == nil {
		t.Error("reading from a dead server succeeded")
	}
	fs.Wait()
}

func TestOthersUnmount(t *testing.T) {
	fs, _, dir, _ := mountLocal(t, Options{})
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	fs.Wait()
	if err := fs.Unmount(context.Background()); err != nil {
		t.Errorf("unmounting what others have unmounted: %v", err)
	}
}

// pending tells whether a signal is pending for a process.
func pending(pid int, sig unix.Signal) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		var mask uint64
		for _, name := range []string{"SigPnd:", "ShdPnd:"} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				if _, err := fmt.Sscanf(rest, "%x", &mask); err == nil && mask>>(sig-1)&1 != 0 {
					return true
				}
			}
		}
	}
	return false
}

// TestSignals: a signal that ends a process ends its wait for the server, any
// other does not.
func TestSignals(t *testing.T) {
	_, l, dir, behind := mountLocal(t, Options{})
	if err := os.WriteFile(behind+"/file", []byte("content\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	blocked, release := make(chan context.Context, 100), make(chan struct{})
	l.setHook(func(ctx context.Context, op string) error {
		if op != "LOOKUP" {
			return nil
		}
		blocked <- ctx
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	start := func() (*user, context.Context) {
		u := startUser(t, `trap : USR1; echo ready; exec 3<"$1/file"; cat <&3`, dir)
		return u, <-blocked
	}

	u, ctx := start()
	if err := u.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := u.cmd.Wait(); err == nil {
		t.Error("a process that was to end went on")
	}
	<-ctx.Done()

	u, ctx = start()
	if err := u.cmd.Process.Signal(unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	for !pending(u.cmd.Process.Pid, unix.SIGUSR1) {
		time.Sleep(time.Millisecond)
	}
	select {
	case <-ctx.Done():
		t.Error("a signal that does not end the process interrupted its request")
	case <-time.After(3 * recheck):
	}
	close(release)
	u.out.Scan()
	if err := u.cmd.Wait(); err != nil || u.out.Text() != "content" {
		t.Errorf("a process that caught a signal read %q, %v", u.out.Text(), err)
	}
}

// TestCacheAcrossOpens: the kernel keeps the data of a file as long as nobody
// else changes it, and drops it when somebody has.
func TestCacheAcrossOpens(t *testing.T) {
	fs, l, dir, behind := mountLocal(t, Options{NoAC: true})
	var reads atomic.Int64
	l.setHook(func(_ context.Context, op string) error {
		if op == "READ" {
			reads.Add(1)
		}
		return nil
	})
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(behind+"/file", []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(what, want string, fromServer bool) {
		t.Helper()
		before := reads.Load()
		got, err := sh(`cat "$1/file"`, dir)
		if err != nil || got != want {
			t.Errorf("%s: read %q, %v, expected %q", what, got, err, want)
		}
		if asked := reads.Load() != before; asked != fromServer {
			t.Errorf("%s: data read from the server: %v, expected %v", what, asked, fromServer)
		}
	}
	write("first")
	read("new", "first", true)
	read("again", "first", false)
	write("other")
	read("changed by another", "other", true)
	read("again", "other", false)
	if out, err := sh(`printf mine >"$1/file"`, dir); err != nil {
		t.Fatal(out, err)
	}
	read("changed by ourselves", "mine", true) // it was truncated and written: nothing whole is cached
	read("again", "mine", false)
	if out, err := sh(`chmod 600 "$1/file"`, dir); err != nil {
		t.Fatal(out, err)
	}
	read("mode changed by ourselves", "mine", false)

	// A reader that has the file open sees the change when it looks at the
	// attributes.
	u := startUser(t, `exec 3<"$1/file"; cat <&3 >/dev/null; echo ready; read x; stat "$1/file" >/dev/null; exec cat /proc/self/fd/3 <&3`, dir)
	write("yours") // as long as before
	u.stdin.Close()
	u.out.Scan()
	if err := u.cmd.Wait(); err != nil || u.out.Text() != "yours" {
		t.Errorf("an open reader read %q, %v, expected the new content", u.out.Text(), err)
	}
	if s := fs.Stats(); s.CacheKept == 0 || s.CacheDropped == 0 || s.BytesRead == 0 || s.BytesWritten != 4 {
		t.Errorf("counters: %+v", s)
	}
}

// TestUnprivileged mounts with the help of fusermount3, as users other than
// root do.
func TestUnprivileged(t *testing.T) {
	haveFUSE(t)
	bin, err := exec.LookPath("fusermount3")
	if err != nil {
		t.Skip("fusermount3 is not installed (package fuse3)")
	}
	if st, err := os.Stat(bin); err != nil || st.Mode()&os.ModeSetuid == 0 {
		t.Skip("fusermount3 is not set-user-ID root")
	}
	if st, err := os.Stat("/dev/fuse"); err != nil || st.Mode().Perm()&0o006 != 0o006 {
		t.Skip("/dev/fuse is for root only here (chmod 666 /dev/fuse)")
	}
	const uid = Nobody                          // fusermount3 wants a user that has a name
	base, err := os.MkdirTemp("/tmp", "fusefs") // unlike t.TempDir's, others may pass it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	dir, self := base+"/mnt", base+"/self"
	text, err := os.ReadFile("/proc/self/exe")
	err = errors.Join(err, os.Chmod(base, 0o755), os.WriteFile(self, text, 0o755), os.Mkdir(dir, 0o700), os.Chown(dir, uid, uid))
	if err != nil {
		t.Fatal(err)
	}
	serve(t, as(uid, self), helperArgs{Backend: "tcp", Dir: dir, Options: Options{Source: `a,b\c:/x`}})
	out, err := as(uid, "/bin/sh", "-euc", `cd "$1"; echo hello >file; cat file; mkdir d; mv file d/; ls d; stat -c %u d`, "sh", dir).CombinedOutput()
	if err != nil || string(out) != "hello\nfile\n65534\n" {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
	if out, err := sh(`ls "$1"`, dir); err == nil {
		t.Errorf("root may use the mount of a user without allow_other: %s", out)
	}
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if want := `a,b\134c:/x ` + dir + " fuse.nfsrdma-fuse "; !strings.Contains(string(b), want) {
		t.Errorf("mount table lacks %q:\n%s", want, b)
	}
}

func as(uid uint32, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return cmd
}
