//go:build lab

package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nfsrdma-fuse/fusefs/conformance"
	"nfsrdma-fuse/scripts/lab"
)

// guestAddr is the address of the machine that its RDMA devices have.
const guestAddr = "10.0.2.15"

// guest is the lab's machine as a client of its own server: there, and only
// there, RDMA devices can be had. The program and the conformance suite run in
// it as they are.
type guest struct {
	*lab.VM
	log io.Writer
}

// newGuest puts the program, which is in bin, and the conformance suite into
// the machine.
func newGuest(t *testing.T, vm *lab.VM, bin string) *guest {
	t.Helper()
	g := &guest{VM: vm, log: t.Output()}
	g.put(t, filepath.Join(bin, "nfsrdma-fuse"), "/usr/bin/nfsrdma-fuse")
	g.run(t, "ln -sf nfsrdma-fuse /usr/bin/mount.nfsrdma-fuse")
	g.put(t, testBinary(t, "./fusefs/conformance"), "/tmp/conformance.test")
	return g
}

// testBinary compiles the tests of a package, given by its directory in the
// module.
func testBinary(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "test")
	cmd := exec.Command("go", append(append([]string{"test", "-c", "-o", out}, args...), strings.TrimSuffix("nfsrdma-fuse/"+strings.TrimPrefix(dir, "./"), "/"))...)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=1")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compiling the tests of %s: %v\n%s", dir, err, text)
	}
	return out
}

func (g *guest) put(t *testing.T, local, remote string) {
	t.Helper()
	if err := g.Put(t.Context(), local, remote, 0o755); err != nil {
		t.Fatal(err)
	}
}

// run runs a script that has to succeed, within a minute or two, and returns
// what it printed. What it wrote to standard error is part of the error.
func (g *guest) run(t *testing.T, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // also for cleaning up
	defer cancel()
	out, err := g.Exec(ctx, script)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// only makes a device of the kind, "rxe" or "siw", the only RDMA device of the
// machine: with two on one network card the kernel would choose. The devices
// that were there are back when the test has ended.
func (g *guest) only(t *testing.T, kind string) {
	t.Helper()
	const script = `
		for other in $(rdma link | sed -n 's|^link \([^/]*\)/.*|\1|p'); do rdma link delete $other; done
		for kind in %s; do rdma link add ${kind}0 type $kind netdev eth0; done`
	g.run(t, fmt.Sprintf(script, kind))
	t.Cleanup(func() { g.run(t, fmt.Sprintf(script, "rxe siw")) })
}

// objects returns how many objects of each kind the kernel holds for RDMA, on
// all devices together.
func (g *guest) objects(t *testing.T) map[string]int {
	t.Helper()
	out := g.run(t, "rdma -j resource show")
	var devices []map[string]any
	if err := json.Unmarshal([]byte(out), &devices); err != nil {
		t.Fatalf("rdma resource show: %v\n%s", err, out)
	}
	all := make(map[string]int)
	for _, d := range devices {
		for kind, n := range d {
			if count, ok := n.(float64); ok && kind != "ifindex" {
				all[kind] += int(count)
			}
		}
	}
	return all
}

// sameObjects waits until the kernel holds no more RDMA objects than before:
// the server gives its own back some time after its client has gone.
func (g *guest) sameObjects(t *testing.T, before map[string]int) {
	t.Helper()
	var now map[string]int
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if now = g.objects(t); maps.Equal(now, before) {
			return
		}
		g.run(t, "sleep 0.2")
	}
	t.Errorf("RDMA objects before: %v, after: %v\n%s", before, now,
		g.run(t, "rdma resource show qp; rdma resource show cm_id; rdma resource show mr | head -n 20"))
}

// mount mounts an export of the machine's server in the machine, and unmounts
// it when the test ends. It checks that the mount goes over a device of the
// kind.
func (g *guest) mount(t *testing.T, kind, export, options string) (dir string) {
	t.Helper()
	dir = "/mnt/" + strings.NewReplacer("/", "_", " ", "_").Replace(t.Name())
	g.run(t, fmt.Sprintf("mkdir -p %s && GODEBUG=cgocheck=1 mount.nfsrdma-fuse %s:%s %s -o %s", dir, guestAddr, export, dir, options))
	t.Cleanup(func() {
		g.run(t, fmt.Sprintf("nfsrdma-fuse umount %[1]s || { nfsrdma-fuse umount --lazy %[1]s; exit 1; }; rmdir %[1]s", dir))
	})
	if out := g.run(t, "nfsrdma-fuse status "+dir); !strings.Contains(out, "over RDMA device "+kind+"0 to "+guestAddr+":") {
		t.Errorf("the status of the mount: %s", out)
	}
	return dir
}

// suite runs conformance cases on a directory in the machine and enters them
// into the table.
func (g *guest) suite(t *testing.T, tb *table, road, dir string, o conformance.Options) {
	t.Helper()
	options, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	out, err := g.Exec(ctx, fmt.Sprintf(`
		cd /tmp && rm -f outcome
		CONFORMANCE_DIR=%s CONFORMANCE_OPTIONS=%s CONFORMANCE_REPORT=outcome ./conformance.test -test.v -test.timeout 570s >conformance.log 2>&1
		status=$?
		cat outcome
		exit $status`, dir, "'"+strings.ReplaceAll(string(options), "'", `'\''`)+"'"))
	ran := make(map[string]bool)
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var c conformance.Outcome
		if err := dec.Decode(&c); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("outcome of the cases: %v\n%s", err, out)
		}
		ran[c.Case] = true
		tb.outcome(road, c.Case, c.Failed, c.Skipped, c.Took)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, g.run(t, "grep -v -e '^=== ' -e '--- PASS' /tmp/conformance.log | tail -n 100"))
	}
	for _, c := range conformance.Cases() {
		if !ran[c.Name] && (o.Only == nil || slices.Contains(o.Only, c.Name)) {
			tb.outcome(road, c.Name, true, "", 0)
			t.Errorf("%s: no outcome", c.Name)
		}
	}
}

// verbsSmall is what the machine does as a client and a server at once, on its
// emulated processors, in little time.
var verbsSmall = conformance.Options{
	DirEntries: 60, BigFile: 4 << 20, TreeFiles: 10, Duration: 300 * time.Millisecond, Workers: 6,
}

// verbsLong are the cases that take a minute each on those processors even so.
var verbsLong = []string{"ToolGit"}

// without returns the names of all cases but some.
func without(some []string) (names []string) {
	for _, c := range conformance.Cases() {
		if !slices.Contains(some, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// verbsRoads are the ways from the machine to its own server over RDMA devices.
var verbsRoads = []struct{ kind, export, options string }{
	{"rxe", "/tmp", "proto=rdma"},
	{"siw", "/tmp", "provider=verbs,vers=4.1"},
}

// runVerbs runs the conformance cases inside the machine over its RDMA devices.
func runVerbs(t *testing.T, tb *table, g *guest, o conformance.Options, column string) {
	for _, r := range verbsRoads {
		t.Run(r.kind, func(t *testing.T) {
			road := "knfsd/verbs/" + r.kind + column
			g.only(t, r.kind)
			before := g.objects(t)
			t.Run("suite", func(t *testing.T) {
				g.suite(t, tb, road, g.mount(t, r.kind, r.export, r.options), o)
			})
			for _, name := range verbsLong {
				if o.Only != nil && !slices.Contains(o.Only, name) {
					tb.outcome(road, name, false, "takes a minute in the machine: part of make lab-verbs", 0)
				}
			}
			began := time.Now()
			clean := t.Run("clean", func(t *testing.T) {
				g.sameObjects(t, before)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := g.WaitIdle(ctx); err != nil {
					t.Errorf("after unmounting: %v", err)
				}
				g.noTrouble(t)
			})
			tb.outcome(road, "server clean after unmount", !clean, "", time.Since(began))
		})
	}
}

// noTrouble fails the test if the machine's kernel has complained.
func (g *guest) noTrouble(t *testing.T) {
	t.Helper()
	trouble, err := g.Trouble(context.Background())
	if err != nil || len(trouble) > 0 {
		t.Errorf("kernel messages of the machine: %q, %v", trouble, err)
	}
}

// consoleEnd logs the end of the machine's console if the test has failed.
func consoleEnd(t *testing.T, vm *lab.VM) {
	if t.Failed() {
		console, _ := os.ReadFile(vm.Console())
		t.Logf("end of the machine's console:\n%s", console[max(0, len(console)-4000):])
	}
}
