//go:build lab

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestInfrastructure shows that the lab itself works, without the client:
// real servers answer, real traffic can be captured and decoded, and nothing
// is left afterwards.
func TestInfrastructure(t *testing.T) {
	dir := t.TempDir()
	began := time.Now()
	vm, err := Start(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the machine served after %v", time.Since(began).Round(time.Second))
	t.Cleanup(func() {
		pid := vm.qemu.cmd.Process.Pid
		if t.Failed() {
			t.Log(vm.explain(errors.New("failed")))
		}
		if err := vm.Close(); err != nil {
			t.Error(err)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("after Close, qemu (process %d) is still there", pid)
		}
		if _, err := net.Dial("tcp", vm.RDMAAddr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("after Close, connecting gives %v", err)
		}
		if left, _ := filepath.Glob(dir + "/*"); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		if err := vm.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
	within := func(t *testing.T, d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		t.Cleanup(cancel)
		return ctx
	}
	run := func(t *testing.T, script string) string {
		t.Helper()
		out, err := vm.Exec(within(t, 5*time.Minute), script)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}

	t.Run("iWARP", func(t *testing.T) {
		c := startCapture(t, CaptureOptions{Addrs: []string{vm.RDMAAddr()}})
		const n = 10
		for range n {
			if err := nullIWARP(vm.RDMAAddr()); err != nil {
				t.Fatal(err)
			}
		}
		d := check(t, c)
		if err := d.Ok(); err != nil {
			t.Error(err)
		}
		if d.Messages["MSG"] != 2*n || d.Calls != n || d.Replies != n {
			t.Errorf("%d NULL calls were decoded as %v", n, d)
		}
	})

	t.Run("TCP", func(t *testing.T) {
		for _, minor := range []uint32{1, 2} {
			if err := probeTCP(vm.TCPAddr(), minor); err != nil {
				t.Errorf("minor version %d: %v", minor, err)
			}
		}
	})

	t.Run("control", func(t *testing.T) {
		kernel := run(t, "uname -r")
		if !strings.HasPrefix(kernel, "6.") {
			t.Errorf("kernel %q", kernel)
		}
		_, err := vm.Exec(t.Context(), "exit 7")
		if failed := new(ScriptError); !errors.As(err, &failed) || failed.Status != 7 {
			t.Errorf("exit 7 gives %v", err)
		}
		if tracking := run(t, "dmesg"); !strings.Contains(tracking, "nfsdcld client tracking") {
			t.Error("the server does not keep its clients' names with nfsdcld: no reclaim after a restart")
		}
	})

	// The kernel's own client, in the machine, through each device: what it
	// can do is the yardstick for what the lab may expect.
	mount := func(t *testing.T, addr, options string) {
		run(t, fmt.Sprintf("mkdir -p /mnt/rdma && mount -t nfs4 -o %s,retry=0 %s:/ /mnt/rdma", options, addr))
		t.Cleanup(func() {
			if _, err := vm.Exec(context.Background(), "umount -f /mnt/rdma"); err != nil {
				t.Error(err)
			}
		})
	}
	const work = `
		set -e
		[ -d /tmp/tree ] || {
			mkdir /tmp/tree
			head -c 5000001 /dev/urandom >/tmp/tree/large
			for i in $(seq 40); do echo "$i" >/tmp/tree/a-rather-long-file-name-so-that-the-listing-grows-$i; done
		}
		cd /mnt/rdma
		cp -r /tmp/tree . && sync -f tree
		echo 3 >/proc/sys/vm/drop_caches
		diff -r /tmp/tree tree
		echo crossed >tmp/file && [ "$(cat tmp/file)" = crossed ]
		stat -c %d . tmp
		rm -r tree tmp/file`
	crossed := func(t *testing.T, devices string) {
		t.Helper()
		if f := strings.Fields(devices); len(f) != 2 || f[0] == f[1] {
			t.Errorf("the devices of / and /tmp are %v: no crossing between file systems", f)
		}
	}

	t.Run("kernel client over rxe", func(t *testing.T) {
		mount(t, "10.0.2.15", "proto=rdma,port=20049,minorversion=1")
		crossed(t, run(t, work))
		clients, err := vm.Clients(t.Context())
		if err != nil || !slices.ContainsFunc(clients, func(c Client) bool {
			return c.Address == "10.0.2.15:0" && c.Status == "confirmed" && c.Minor == "1" && c.Back == "UP"
		}) {
			t.Errorf("clients = %+v, %v", clients, err)
		}
		conns, err := vm.Connections(t.Context())
		if err != nil || len(conns) != 1 || conns[0].Road != "rxe0" {
			t.Errorf("connections = %+v, %v", conns, err)
		}
	})

	// Out of the machine and back in through the forwarded port, so that the
	// traffic between two kernels passes by on this side.
	t.Run("kernel client over siw", func(t *testing.T) {
		run(t, "rdma link del rxe0")
		t.Cleanup(func() { vm.Exec(context.Background(), "rdma link add rxe0 type rxe netdev eth0") })
		c := startCapture(t, CaptureOptions{Addrs: []string{vm.RDMAAddr()}})
		_, port, _ := net.SplitHostPort(vm.RDMAAddr())
		t.Run("mounted", func(t *testing.T) {
			mount(t, "10.0.2.2", "proto=rdma,minorversion=1,port="+port)
			crossed(t, run(t, work))
			conns, err := vm.Connections(t.Context())
			if err != nil || len(conns) != 1 || conns[0].Road != "siw0" {
				t.Errorf("connections = %+v, %v", conns, err)
			}
		})
		d := check(t, c)
		if err := d.Ok(); err != nil {
			t.Error(err)
		}
		for _, kind := range []string{"Send", "Write", "Read Request", "Read Response"} {
			if d.Segments[kind] == 0 {
				t.Errorf("no %s among the segments", kind)
			}
		}
		if d.Messages["MSG"] == 0 || d.Messages["NOMSG"] == 0 || d.NFS == 0 {
			t.Errorf("decoded only %v", d)
		}
	})

	t.Run("idle", func(t *testing.T) {
		// The records of probeTCP were never confirmed and stay until their lease has run out.
		if err := vm.WaitIdle(within(t, 2*time.Minute)); err != nil {
			t.Error(err)
		}
	})

	t.Run("server restart", func(t *testing.T) {
		if err := vm.ServerStop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := nullIWARP(vm.RDMAAddr()); err == nil {
			t.Error("a stopped server answers")
		}
		if err := vm.ServerStart(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if err := nullIWARP(vm.RDMAAddr()); err != nil {
			t.Error(err)
		}
		if err := probeTCP(vm.TCPAddr(), 1); err != nil {
			t.Error(err)
		}
	})

	t.Run("silence", func(t *testing.T) {
		p, err := dialIWARP(vm.RDMAAddr())
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if err := p.null(1); err != nil {
			t.Fatal(err)
		}
		if err := vm.Pause(); err != nil {
			t.Fatal(err)
		}
		answered := make(chan error, 1)
		go func() { answered <- p.null(2) }()
		select {
		case err := <-answered:
			t.Errorf("a paused machine answers: %v", err)
		case <-time.After(time.Second):
		}
		if err := vm.Resume(); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; err != nil {
			t.Errorf("after the pause: %v", err)
		}
		for _, up := range []bool{false, true} {
			if err := vm.SetLink(up); err != nil {
				t.Fatal(err)
			}
			carrier := strings.TrimSpace(run(t, "cat /sys/class/net/eth0/carrier"))
			if want := map[bool]string{false: "0", true: "1"}[up]; carrier != want {
				t.Errorf("link %v: carrier %s", up, carrier)
			}
		}
	})

	t.Run("Ganesha", func(t *testing.T) {
		g, err := StartGanesha(t.Context(), GaneshaOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		_, port, _ := net.SplitHostPort(g.TCPAddr())
		// Not 4.2: there the kernel reads with READ_PLUS, which Ganesha 4.3 answers wrongly.
		t.Run("mounted", func(t *testing.T) {
			mount(t, "10.0.2.2", "proto=tcp,minorversion=1,port="+port)
			crossed(t, run(t, work))
		})
	})

	t.Run("kernel", func(t *testing.T) {
		trouble, err := vm.Trouble(t.Context())
		if err != nil || len(trouble) > 0 {
			t.Errorf("the machine's kernel complains: %q, %v", trouble, err)
		}
	})
}
