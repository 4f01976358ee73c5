package fusefs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// Mounts under test are served by another process, started from this binary:
// one that serves a mount and uses it can hang in the Go runtime. The helper
// mounts, says so, and unmounts when its standard input ends; then it looks for
// what has leaked and says that by its exit status.

const helperEnv = "FUSEFS_TEST_HELPER"

// helperArgs say what the helper serves.
type helperArgs struct {
	Backend string // a name in helperBackends
	Dir     string // mount point
	Arg     string // for the backend
	Options Options
}

// helperBackends mount something and return the mount and a function that takes
// everything down again after the unmount and reports leaks.
var helperBackends = map[string]func(helperArgs) (*FS, func() error, error){
	"local": func(a helperArgs) (*FS, func() error, error) {
		l, err := newLocalFS(a.Arg)
		if err != nil {
			return nil, nil, err
		}
		root, attrs, err := l.rootAttrs()
		if err != nil {
			return nil, nil, err
		}
		a.Options.LocalFlock, a.Options.LocalPOSIX = true, true // it has no locks
		fs, err := mount(a.Dir, l, root, attrs, a.Options)
		if err != nil {
			return nil, nil, err
		}
		return fs, func() error {
			defer l.close()
			if n := l.open.Load(); n != 0 {
				return fmt.Errorf("%d files are still open at the server", n)
			}
			if n := l.pool.InUse(); n != 0 {
				return fmt.Errorf("%d payload buffers are still in use", n)
			}
			return nil
		}, nil
	},
}

func TestMain(m *testing.M) {
	if text := os.Getenv(linearEnv); text != "" {
		if err := runLinear(text); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if text := os.Getenv(helperEnv); text != "" {
		if err := runHelper(text); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func runHelper(text string) error {
	var a helperArgs
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return err
	}
	unix.Umask(0)
	warnings := new(strings.Builder)
	log := logrus.New()
	log.SetOutput(io.MultiWriter(warnings, os.Stderr))
	log.SetLevel(logrus.WarnLevel)
	a.Options.Log = log

	before, err := descriptors()
	if err != nil {
		return err
	}
	fs, down, err := helperBackends[a.Backend](a)
	if err != nil {
		return err
	}
	fmt.Println("mounted")
	_, _ = io.Copy(io.Discard, os.Stdin)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err = fs.Unmount(ctx)
	fs.Wait()
	err = errors.Join(err, down(), fs.leaks())
	if after, e := descriptors(); e != nil {
		err = errors.Join(err, e)
	} else if after > before+1 { // the runtime's poller may have been started
		err = errors.Join(err, fmt.Errorf("%d descriptors are open, %d at the start", after, before))
	}
	if warnings.Len() > 0 {
		err = errors.Join(err, errors.New("there were warnings"))
	}
	return errors.Join(err, goleak.Find())
}

// leaks tells what is left in the tables after the end.
func (f *FS) leaks() error {
	s := f.Stats()
	if s.OpenFiles != 0 || s.OpenDirs != 0 || s.Running != 0 {
		return fmt.Errorf("left over: %d files, %d directories, %d requests", s.OpenFiles, s.OpenDirs, s.Running)
	}
	if n := len(f.bridge.sillies.list()); n != 0 {
		return fmt.Errorf("%d silly names are left", n)
	}
	return nil
}

func descriptors() (int, error) {
	all, err := os.ReadDir("/proc/self/fd")
	return len(all), err
}

// helper starts a helper and returns its mount point. The mount is taken down
// and the helper's findings are reported when the test ends.
func helper(t testing.TB, backend, arg string, o Options) string {
	t.Helper()
	haveFUSE(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	serve(t, exec.Command(self), helperArgs{Backend: backend, Dir: dir, Arg: arg, Options: o})
	return dir
}

// serve starts a helper by a command that runs this executable.
func serve(t testing.TB, cmd *exec.Cmd, a helperArgs) {
	t.Helper()
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	dir := a.Dir
	cmd.Env = append(os.Environ(), helperEnv+"="+string(text))
	var stderr strings.Builder
	cmd.Stderr = &stderr
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
	lines := bufio.NewScanner(stdout)
	t.Cleanup(func() {
		stdin.Close()
		var rest []string
		for lines.Scan() {
			rest = append(rest, lines.Text())
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("serving process: %v\n%s\n%s", err, strings.Join(rest, "\n"), stderr.String())
		}
		if isMounted(dir) {
			t.Errorf("%s is still mounted", dir)
			_ = unix.Unmount(dir, unix.MNT_DETACH)
		}
	})
	if !lines.Scan() || lines.Text() != "mounted" {
		t.Fatalf("serving process: %q\n%s", lines.Text(), stderr.String())
	}
}

func isMounted(dir string) bool {
	_, err := mountDevice(dir)
	return err == nil
}
