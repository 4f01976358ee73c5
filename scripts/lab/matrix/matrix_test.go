//go:build lab

// Package matrix runs the program against every real server there is here,
// and tells what passed where.
package matrix

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"nfsrdma-fuse/fusefs/conformance"
	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/scripts/lab"
)

// buildProgram builds the program that is under test and returns the
// directory that it is in, under both of its names.
func buildProgram(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	cmd := exec.Command("go", "build", "-o", filepath.Join(bin, "nfsrdma-fuse"), "nfsrdma-fuse")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=1") // for RDMA devices
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	if err := os.Symlink("nfsrdma-fuse", filepath.Join(bin, "mount.nfsrdma-fuse")); err != nil {
		t.Fatal(err)
	}
	return bin
}

// mount mounts an export of a server on loopback with the program, and
// unmounts it when the test ends.
func mount(t *testing.T, bin, addr, export, options string) string {
	t.Helper()
	dir := t.TempDir()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
		cmd.WaitDelay = 5 * time.Second
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("mount.nfsrdma-fuse", "127.0.0.1:"+export, dir, "-o", "port="+port+","+options); err != nil {
		t.Fatalf("mounting %s of %s with %s: %v\n%s", export, addr, options, err, out)
	}
	t.Cleanup(func() {
		if out, err := run("nfsrdma-fuse", "umount", dir); err != nil {
			t.Errorf("unmounting: %v\n%s", err, out)
			if out, err := run("nfsrdma-fuse", "umount", "--lazy", dir); err != nil {
				t.Errorf("detaching: %v\n%s", err, out)
			}
		}
	})
	return dir
}

// table is what passed where: a row for each case, a column for each road.
type table struct {
	mu    sync.Mutex
	roads []string
	cases []string
	cells map[[2]string]string
	notes []string
}

func (tb *table) set(road, name, cell string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if !slices.Contains(tb.roads, road) {
		tb.roads = append(tb.roads, road)
	}
	if !slices.Contains(tb.cases, name) {
		tb.cases = append(tb.cases, name)
	}
	tb.cells[[2]string{road, name}] = cell
}

// outcome enters the end of a case.
func (tb *table) outcome(road, name string, failed bool, skipped string, took time.Duration) {
	switch {
	case failed:
		tb.set(road, name, "FAILED")
	case skipped != "":
		reason, _, _ := strings.Cut(skipped, "\n")
		tb.mu.Lock()
		note := slices.Index(tb.notes, reason)
		if note < 0 {
			note = len(tb.notes)
			tb.notes = append(tb.notes, reason)
		}
		tb.mu.Unlock()
		tb.set(road, name, fmt.Sprintf("skipped (%d)", note+1))
	default:
		tb.set(road, name, fmt.Sprintf("ok %.1fs", took.Seconds()))
	}
}

func (tb *table) String() string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "case\t%s\n", strings.Join(tb.roads, "\t"))
	passed, failed := 0, 0
	for _, c := range tb.cases {
		row := []string{c}
		for _, r := range tb.roads {
			cell := tb.cells[[2]string{r, c}]
			switch {
			case cell == "":
				cell = "-"
			case cell == "FAILED":
				failed++
			case strings.HasPrefix(cell, "ok"):
				passed++
			}
			row = append(row, cell)
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	for i, n := range tb.notes {
		fmt.Fprintf(&b, "(%d) %s\n", i+1, n)
	}
	fmt.Fprintf(&b, "%d passed, %d failed\n", passed, failed)
	return b.String()
}

// publish writes the table where NFSRDMA_LAB_TABLE says, or to the log.
func (tb *table) publish(t *testing.T) {
	path := os.Getenv("NFSRDMA_LAB_TABLE")
	if path == "" {
		t.Log("\n" + tb.String())
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte(tb.String()), 0o644); err != nil {
		t.Error(err)
	}
}

// small is what an emulated processor does within minutes on every road.
var small = conformance.Options{Workers: 6, DirEntries: 250, BigFile: 16 << 20, TreeFiles: 30, Duration: time.Second}

// scenarios are the cases that run large, on the road that everything is
// about: each with its own size and export.
var scenarios = []struct {
	name, export string
	size         conformance.Options
}{
	{"ConcurrentProcesses", "/", conformance.Options{Duration: time.Minute}},
	{"ToolCopyTree", "/tmp", conformance.Options{TreeFiles: 2000}},
	{"ToolGit", "/tmp", conformance.Options{TreeFiles: 200}},
	{"BigFile", "/", conformance.Options{BigFile: 1 << 30}},
}

// ganeshaFaults are the cases that Ganesha 4.3 on a local file system fails by
// itself: the request is right, and knfsd carries it out.
var ganeshaFaults = map[string]string{
	"SymbolicLinks": "Ganesha answers SETATTR of a symbolic link's times with success and leaves them",
}

// TestMatrix runs the conformance cases through the program over every road
// to a server there is here. NFSRDMA_LAB_CASES=Name,Name… chooses cases for a
// closer look at them.
func TestMatrix(t *testing.T) {
	bin := buildProgram(t)
	tb := &table{cells: make(map[[2]string]string)}
	defer tb.publish(t)

	var chosen []string
	if cases := os.Getenv("NFSRDMA_LAB_CASES"); cases != "" {
		chosen = strings.Split(cases, ",")
	}
	scenario := func(t *testing.T, road, name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			defer func() {
				tb.outcome(road, name, t.Failed(), "", time.Since(began))
			}()
			f(t)
		})
	}
	suite := func(t *testing.T, road, dir string, o conformance.Options) {
		if o.Only == nil {
			o.Only = chosen
		}
		o.Report = func(out conformance.Outcome) {
			tb.outcome(road, out.Case, out.Failed, out.Skipped, out.Took)
		}
		conformance.Run(t, dir, o)
		if o.Only == nil {
			scenario(t, road, "random calls as on a local disk", func(t *testing.T) { conformance.Random(t, dir) })
		}
	}

	t.Run("embedded", func(t *testing.T) {
		for _, proto := range []string{"rdma", "tcp"} {
			t.Run(proto, func(t *testing.T) {
				server := nfstest.NewServer(nfstest.Options{})
				defer server.Close()
				listen := server.ListenRDMA
				if proto == "tcp" {
					listen = server.ListenTCP
				}
				addr, err := listen("127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				t.Run("suite", func(t *testing.T) {
					suite(t, "embedded/"+proto, mount(t, bin, addr.String(), "/", "proto="+proto), small)
				})
				if left := server.Leaks(); len(left) > 0 {
					t.Errorf("left on the server: %v", left)
				}
			})
		}
	})

	t.Run("ganesha", func(t *testing.T) {
		g, err := lab.StartGanesha(t.Context(), lab.GaneshaOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		}()
		t.Run("suite", func(t *testing.T) {
			o := small
			o.Expected = ganeshaFaults
			suite(t, "ganesha/tcp", mount(t, bin, g.TCPAddr(), "/", "proto=tcp"), o)
		})
	})

	t.Run("knfsd", func(t *testing.T) {
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
		clean := func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := vm.WaitIdle(ctx); err != nil {
				t.Errorf("after unmounting: %v", err)
			}
			trouble, err := vm.Trouble(ctx)
			if err != nil || len(trouble) > 0 {
				t.Errorf("kernel messages of the server: %q, %v", trouble, err)
			}
		}
		for _, r := range []struct{ road, addr, export, options string }{
			{"knfsd/siw/tmpfs", vm.RDMAAddr(), "/tmp", "proto=rdma"},
			{"knfsd/siw/ext4", vm.RDMAAddr(), "/", "proto=rdma,vers=4.1"},
		} {
			t.Run(strings.TrimPrefix(r.road, "knfsd/"), func(t *testing.T) {
				t.Run("suite", func(t *testing.T) {
					suite(t, r.road, mount(t, bin, r.addr, r.export, r.options), small)
				})
				scenario(t, r.road, "server clean after unmount", clean)
			})
		}
		t.Run("scenarios", func(t *testing.T) {
			for _, c := range scenarios {
				if chosen != nil && !slices.Contains(chosen, c.name) {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					c.size.Only = []string{c.name}
					suite(t, "knfsd/siw, large", mount(t, bin, vm.RDMAAddr(), c.export, "proto=rdma"), c.size)
				})
			}
			scenario(t, "knfsd/siw, large", "server clean after unmount", clean)
		})
		t.Run("verbs", func(t *testing.T) {
			o := verbsSmall
			if o.Only = chosen; chosen == nil {
				o.Only = without(verbsLong)
			}
			runVerbs(t, tb, newGuest(t, vm, bin), o, "")
		})
		// What went over the wire, in the eyes of an independent decoder.
		scenario(t, "knfsd/siw/tmpfs", "capture decodes in tshark", func(t *testing.T) {
			c, err := lab.StartCapture(t.Context(), lab.CaptureOptions{Addrs: []string{vm.RDMAAddr()}, MaxBytes: 1 << 30})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			t.Run("suite", func(t *testing.T) {
				o := small
				o.Only, o.BigFile = nil, 4<<20
				for _, c := range scenarios {
					o.Only = append(o.Only, c.name)
				}
				conformance.Run(t, mount(t, bin, vm.RDMAAddr(), "/tmp", "proto=rdma,crc"), o)
			})
			d, err := c.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Ok(); err != nil {
				t.Error(err)
			}
			for _, kind := range []string{"Send", "Write", "Read Request", "Read Response"} {
				if d.Segments[kind] == 0 {
					t.Errorf("no %s was captured: %v", kind, d.Segments)
				}
			}
			t.Log(d)
		})
	})
}
