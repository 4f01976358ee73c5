//go:build lab

package lab

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestGanesha(t *testing.T) {
	dir := t.TempDir()
	began := time.Now()
	g, err := StartGanesha(t.Context(), GaneshaOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	t.Logf("served after %v", time.Since(began).Round(time.Millisecond))
	for _, minor := range []uint32{1, 2} {
		if err := probeTCP(g.TCPAddr(), minor); err != nil {
			t.Errorf("minor version %d: %v", minor, err)
		}
	}
	if err := probeTCP(g.TCPAddr(), 0); err == nil {
		t.Error("EXCHANGE_ID was taken as an operation of NFSv4.0")
	}

	second := &Ganesha{opts: g.opts, dir: &tempDir{path: t.TempDir()}, addr: g.addr}
	if err := second.makeDirs(); err != nil {
		t.Fatal(err)
	}
	if err := second.Start(t.Context()); !errors.Is(err, errPortTaken) {
		t.Errorf("a second server on the same port: %v", err)
	}
	second.Stop()
	astray := &Ganesha{opts: g.opts, dir: &tempDir{path: t.TempDir()}, addr: "127.0.0.1:0"}
	if err := astray.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "export") {
		t.Errorf("a server without the directories to export: %v", err)
	}
	astray.Stop()

	pid := g.daemon.cmd.Process.Pid
	g.Stop()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("after Stop, process %d is still there", pid)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatalf("second start: %v", err)
	}
	if err := probeTCP(g.TCPAddr(), 1); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if info, err := os.Stat(filepath.Join(g.Export(), "tmp")); err != nil || !info.IsDir() {
		t.Errorf("the export: %v", err)
	}

	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", g.TCPAddr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after Close, connecting gives %v", err)
	}
	if left, _ := filepath.Glob(dir + "/*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
