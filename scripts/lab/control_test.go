package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// testControl serves the agent on this machine: the channel is the same.
func testControl(t *testing.T) Control {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- ServeAgent(l, "secret") }()
	t.Cleanup(func() {
		l.Close()
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Errorf("ServeAgent: %v", err)
		}
	})
	return Control{Addr: l.Addr().String(), Token: "secret"}
}

func TestExec(t *testing.T) {
	c := testControl(t)
	out, err := c.Exec(t.Context(), "echo one; echo two >&2; echo three")
	if err != nil || out != "one\nthree\n" {
		t.Errorf("Exec = %q, %v", out, err)
	}

	_, err = c.Exec(t.Context(), "echo why >&2; exit 3")
	var failed *ScriptError
	if !errors.As(err, &failed) || failed.Status != 3 || failed.Stderr != "why\n" {
		t.Errorf("a script with exit 3: %#v", err)
	}
	if _, err = c.Exec(t.Context(), "kill -9 $$"); !errors.As(err, &failed) || failed.Status != 128+9 {
		t.Errorf("a script killed by signal 9: %#v", err)
	}
	// A daemon that keeps the output open must not keep the caller.
	if out, err = c.Exec(t.Context(), "sleep 60 & echo $!"); err != nil {
		t.Errorf("a script that leaves a child: %v", err)
	}
	if _, err := c.Exec(t.Context(), "kill "+out); err != nil {
		t.Errorf("the child that was left: %v", err)
	}
}

func TestExecWrongToken(t *testing.T) {
	c := testControl(t)
	c.Token = "guess"
	mark := filepath.Join(t.TempDir(), "mark")
	if _, err := c.Exec(t.Context(), "touch "+quote(mark)); err == nil {
		t.Error("a wrong token was accepted")
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a script with a wrong token was run")
	}
}

func TestExecConcurrent(t *testing.T) {
	c := testControl(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			want := fmt.Sprintf("%d\n", i)
			if out, err := c.Exec(t.Context(), fmt.Sprintf("echo %d", i)); err != nil || out != want {
				t.Errorf("Exec %d = %q, %v", i, out, err)
			}
		})
	}
	wg.Wait()
}

// TestExecCancel ends the context of a script that has begun: its whole
// process group has to go.
func TestExecCancel(t *testing.T) {
	c := testControl(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if _, err := c.Exec(t.Context(), "mkfifo "+quote(fifo)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		// The child holds the FIFO open for writing for as long as it lives.
		err := c.Run(ctx, Script{Text: fmt.Sprintf("(sleep 600 >%s) & echo begun; wait", quote(fifo)), Stdout: w})
		w.Close()
		ended <- err
	}()
	if _, err := io.ReadFull(r, make([]byte, len("begun\n"))); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(fifo) // returns when the child has opened it
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
	f.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, f); err != nil { // ends when the child has gone
		t.Error(err)
	}
}

func TestRunStreams(t *testing.T) {
	c := testControl(t)
	data := make([]byte, 3*maxFrame+17)
	rand.NewChaCha8([32]byte{}).Read(data)
	var out bytes.Buffer
	if err := c.Run(t.Context(), Script{Text: "cat", Stdin: bytes.NewReader(data), Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	if sha256.Sum256(out.Bytes()) != sha256.Sum256(data) {
		t.Errorf("%d octets went out, %d others came back", len(data), out.Len())
	}
	// Input that the script does not want is no error.
	if err := c.Run(t.Context(), Script{Text: "exit 0", Stdin: bytes.NewReader(data)}); err != nil {
		t.Errorf("input left unread: %v", err)
	}
	// Input that breaks off is one, and the script must not take it for all there is.
	broken := io.MultiReader(strings.NewReader("half"), brokenReader{})
	if err := c.Run(t.Context(), Script{Text: "cat", Stdin: broken}); !errors.Is(err, errBroken) {
		t.Errorf("broken input: %v", err)
	}
}

var errBroken = errors.New("broken")

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }

func TestPut(t *testing.T) {
	c := testControl(t)
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "it's here")
	if err := os.WriteFile(from, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Put(t.Context(), from, to, 0o750); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(to)
	info, _ := os.Stat(to)
	if err != nil || string(data) != "content" || info.Mode().Perm() != 0o750 {
		t.Errorf("the copy has %q, %v, %v", data, info.Mode(), err)
	}
}

func TestFrameTooLong(t *testing.T) {
	head := []byte{frameStdout, 0xff, 0xff, 0xff, 0xff}
	if _, _, err := readFrame(bytes.NewReader(head)); err == nil {
		t.Error("a frame of 4 GiB was accepted")
	}
	var buf bytes.Buffer
	if err := writeFrame(&buf, frameStdin, []byte("abc")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readFrame(bytes.NewReader(buf.Bytes()[:6])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a frame cut short: %v", err)
	}
}
