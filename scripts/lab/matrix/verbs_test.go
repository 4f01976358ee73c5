//go:build lab && verbs

package matrix

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"nfsrdma-fuse/fusefs/conformance"
	"nfsrdma-fuse/scripts/lab"
)

// TestVerbs is what takes too long for every run of the lab, inside the machine
// over both of its RDMA devices: the cases at their ordinary sizes, faults under
// a mount that is in use, and the kernel's own NFS/RDMA client on the same
// export.
func TestVerbs(t *testing.T) {
	bin := buildProgram(t)
	tb := &table{cells: make(map[[2]string]string)}
	defer tb.publish(t)
	vm, err := lab.Start(t.Context(), lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		consoleEnd(t, vm)
		if err := vm.Close(); err != nil {
			t.Error(err)
		}
	}()
	g := newGuest(t, vm, bin)
	for _, kind := range []string{"rxe", "siw"} {
		t.Run(kind, func(t *testing.T) {
			g.only(t, kind)
			before := g.objects(t)
			for name, f := range map[string]func(*testing.T, *guest, string){
				"faults": verbsFaults, "kernel client": verbsBeside, "benchmark": verbsBench,
			} {
				began := time.Now()
				ok := t.Run(name, func(t *testing.T) { f(t, g, kind) })
				tb.outcome("knfsd/verbs/"+kind, name, !ok, "", time.Since(began))
			}
			g.sameObjects(t, before)
			g.noTrouble(t)
		})
	}
	o := conformance.Options{DirEntries: 250, TreeFiles: 30, BigFile: 64 << 20, Duration: 5 * time.Second}
	runVerbs(t, tb, g, o, "")
}

// verbsFaults breaks the way to the server under a hard mount that is in use:
// each time the work goes on, nothing fails, and afterwards the kernel and the
// program hold what they held before.
func verbsFaults(t *testing.T, g *guest, kind string) {
	dir := g.mount(t, kind, "/tmp", "provider=verbs")
	pid := strings.TrimSpace(g.run(t, "nfsrdma-fuse status "+dir+" | sed -n 's/.*process \\([0-9]*\\).*/\\1/p'"))
	descriptors := func() int { return number(t, g.run(t, "ls /proc/"+pid+"/fd | wc -l")) }

	// Copies a file in and compares it, over and over, and counts.
	g.run(t, fmt.Sprintf(`
		rm -f /tmp/work.*; head -c 300001 /dev/urandom >/tmp/work.src; echo 0 >/tmp/work.count
		cat >/tmp/work.sh <<-'END'
			n=0
			while [ ! -e /tmp/work.stop ]; do
				cp /tmp/work.src %[1]s/work && cmp /tmp/work.src %[1]s/work && rm %[1]s/work || { echo "round $n" >>/tmp/work.failed; exit 1; }
				n=$((n + 1))
				echo $n >/tmp/work.next && mv /tmp/work.next /tmp/work.count
			done
		END
		setsid sh /tmp/work.sh >/tmp/work.log 2>&1 </dev/null &`, dir))
	progress := func(t *testing.T) {
		t.Helper()
		from := number(t, g.run(t, "cat /tmp/work.count"))
		out := g.run(t, fmt.Sprintf(`
			for i in $(seq 450); do
				[ -e /tmp/work.failed ] || [ $(cat /tmp/work.count) -gt %d ] && break
				sleep 0.2
			done
			cat /tmp/work.count; cat /tmp/work.failed /tmp/work.log 2>/dev/null || true`, from+1))
		count, failures, _ := strings.Cut(out, "\n")
		if number(t, count) <= from+1 || strings.TrimSpace(failures) != "" {
			t.Errorf("%s rounds of work, %d before; %s\n%s", count, from, failures, g.run(t, "nfsrdma-fuse status; rdma resource show qp; rdma resource show cm_id"))
		}
	}
	progress(t)
	objects, fds := g.objects(t), descriptors()

	again := fmt.Sprintf("timeout 60 rdma link delete %[1]s0 && rdma link add %[1]s0 type %[1]s netdev eth0", kind)
	faults := []struct{ name, script string }{
		{"device removed", again},
		{"device away for a while", strings.Replace(again, "&&", "&& sleep 5 &&", 1)},
		{"port down", "ip link set eth0 down; sleep 5; ip link set eth0 up; ip route replace default via 10.0.2.2"},
		{"server killed", "/run/lab/server stop; sleep 3; /run/lab/server start keepgrace"},
	}
	for _, f := range faults {
		script := f.script
		if f.name == "port down" && kind == "rxe" {
			// Whoever sends a message of the connection manager while the port
			// is down leaves rxe's queue pair for those in the error state; no
			// connection can be made until the device is made anew.
			script += "; " + again
		}
		t.Run(f.name, func(t *testing.T) {
			g.run(t, script)
			progress(t)
			for end := time.Now().Add(30 * time.Second); ; g.run(t, "sleep 0.2") {
				if maps.Equal(g.objects(t), objects) && descriptors() == fds {
					break
				}
				if time.Now().After(end) {
					t.Errorf("held before: %v and %d descriptors, after: %v and %d", objects, fds, g.objects(t), descriptors())
					break
				}
			}
		})
	}
	if kind == "rxe" {
		t.Run("retry count exceeded", func(t *testing.T) {
			// rxe's packets vanish: nothing but the device's retries notices.
			g.run(t, `nft add table inet fault && nft add chain inet fault in '{ type filter hook input priority 0; }' &&
				nft add rule inet fault in udp dport 4791 drop; sleep 15; nft delete table inet fault`)
			progress(t)
		})
	}
	g.run(t, "touch /tmp/work.stop; for i in $(seq 100); do pgrep -f work.sh >/dev/null || break; sleep 0.2; done; rm -f /tmp/work.*")
}

// verbsBeside writes a tree through the program and looks at it through the
// kernel's own client on the same export and device, and the other way round:
// names, bytes and attributes are the same.
func verbsBeside(t *testing.T, g *guest, kind string) {
	ours := g.mount(t, kind, "/", "provider=verbs")
	kernel := g.mountKernel(t, "/")
	const tree = `
		set -e
		mkdir $1; cd $1
		for n in 1 2 3 4 5 6 7 8; do
			mkdir -p d$n/e; head -c $((n * n * n * 1000 + n)) /dev/urandom >d$n/file$n; echo $n >d$n/e/small
			chmod $((n % 8))$((n % 8))4 d$n/file$n; chown $((n * 100)):$((n * 10)) d$n/e/small
			touch -d "2001-02-03 04:05:0$n.12345678$n" d$n/file$n
		done
		head -c 5000000 /dev/urandom >large
		ln large 'hard link'; ln -s large sym; ln -s /nowhere "$(printf 'sp\303\244t \n\t*')"; mkfifo fifo
		truncate -s 7000000 sparse; : >empty; setfattr -n user.a -v b empty 2>/dev/null || true
		sync -f .`
	// Everything that both ought to show alike.
	const show = `
		cd $1 && find . -printf '%p %y %m %n %U %G %s %i %T@ %l\n' | sort && find . -type f -exec sha256sum {} + | sort`
	for _, way := range []struct{ name, writer, reader string }{{"ours first", ours, kernel}, {"kernel's first", kernel, ours}} {
		t.Run(way.name, func(t *testing.T) {
			// A name of its own: that there is none may be remembered a while.
			name := "/beside-" + kind + way.name[:1]
			g.run(t, "set -- "+way.writer+name+tree)
			wrote := g.run(t, "set -- "+way.writer+name+show)
			read := g.run(t, "echo 3 >/proc/sys/vm/drop_caches; set -- "+way.reader+name+show)
			if wrote == "" || wrote != read {
				t.Errorf("written through %s:\n%s\nread through %s:\n%s", way.writer, wrote, way.reader, read)
			}
			// What the one removes, the other soon does not see any more.
			g.run(t, fmt.Sprintf(`rm -r %s%s; for i in $(seq 90); do ls -d %[3]s%[2]s 2>/dev/null || exit 0; sleep 0.5; done; exit 1`,
				way.reader, name, way.writer))
		})
	}
}

// mountKernel mounts an export in the machine with the kernel's own client,
// over its only RDMA device.
func (g *guest) mountKernel(t *testing.T, export string) (dir string) {
	t.Helper()
	dir = "/mnt/kernel"
	g.run(t, fmt.Sprintf("mkdir -p %[1]s && mount -t nfs4 -o proto=rdma,port=20049,vers=4.2 %[2]s:%[3]s %[1]s", dir, guestAddr, export))
	t.Cleanup(func() { g.run(t, "umount "+dir) })
	return dir
}

// verbsBench compares the program with the kernel's client, on the same export
// and over the same device in turns, and prints the copies of file data that
// the program makes.
func verbsBench(t *testing.T, g *guest, kind string) {
	g.put(t, testBinary(t, "./"), "/tmp/bench.test")
	ours, kernel := g.mount(t, kind, "/tmp", "provider=verbs"), g.mountKernel(t, "/tmp")
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	out, err := g.Exec(ctx, fmt.Sprintf(`cd /tmp && NFSRDMA_BENCH_OURS=%s NFSRDMA_BENCH_KERNEL=%s NFSRDMA_BENCH_SERVER='%s:/tmp provider=verbs' \
		./bench.test -test.run '^$' -test.bench 'Beside|Copies' -test.benchtime 4x 2>&1`, ours, kernel, guestAddr))
	t.Log("\n" + out)
	if err != nil {
		t.Error(err)
	}
	for _, want := range []string{" 0 copies/B-read", " 1.000 copies/B-written"} {
		if !strings.Contains(out, want) {
			t.Errorf("the benchmark does not say%s", want)
		}
	}
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestVerbsNotConnected: what the program says when no connection can be made
// over a device.
func TestVerbsNotConnected(t *testing.T) {
	bin := buildProgram(t)
	vm, err := lab.Start(t.Context(), lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer vm.Close()
	g := newGuest(t, vm, bin)
	fails := func(t *testing.T, script string, words ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		out, err := g.Exec(ctx, script+" 2>&1")
		if err == nil {
			t.Fatalf("%s succeeded", script)
		}
		out = strings.TrimSpace(out)
		if strings.Contains(out, "\n") {
			t.Errorf("more than one line: %s", out)
		}
		for _, w := range words {
			if !strings.Contains(out, w) {
				t.Errorf("%q does not mention %q", out, w)
			}
		}
		t.Log(out)
	}
	for _, kind := range []string{"rxe", "siw"} {
		t.Run(kind, func(t *testing.T) {
			g.only(t, kind)
			before := g.objects(t)
			mount := func(port int) string {
				return fmt.Sprintf("mkdir -p /mnt/no; mount.nfsrdma-fuse %s:/ /mnt/no -o provider=verbs,timeo=200,port=%d", guestAddr, port)
			}
			fails(t, mount(1), "refuses connections", guestAddr)
			g.run(t, "/run/lab/server stop")
			fails(t, mount(20049), "refuses connections")
			g.run(t, "/run/lab/server start")
			g.sameObjects(t, before)
		})
	}
	t.Run("no device", func(t *testing.T) {
		g.run(t, "rdma link delete rxe0; rdma link delete siw0")
		defer g.run(t, "rdma link add rxe0 type rxe netdev eth0; rdma link add siw0 type siw netdev eth0")
		fails(t, fmt.Sprintf("mkdir -p /mnt/no; mount.nfsrdma-fuse %s:/ /mnt/no -o provider=verbs", guestAddr), "there is no RDMA device", "provider=iwarp")
	})
}
