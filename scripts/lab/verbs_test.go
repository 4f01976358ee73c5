//go:build lab && verbs

package lab

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestVerbs runs the tests of package rdma/verbs inside the machine, over rxe
// and over siw: the suite of providers, calls between its own ends and to the
// kernel's NFS server, and on siw to and from software iWARP. Afterwards the
// kernel must hold no more RDMA objects than before.
func TestVerbs(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "verbs.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", binary, "nfsrdma-fuse/rdma/verbs")
	build.Env = append(build.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the tests: %v\n%s", err, out)
	}
	vm, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer vm.Close()
	if err := vm.Put(t.Context(), binary, "/tmp/verbs.test", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, device := range []string{"rxe", "siw"} {
		t.Run(device, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
			defer cancel()
			// With both on one network card the kernel would choose.
			script := `
				for other in $(rdma link | sed -n 's|^link \([^/]*\)/.*|\1|p'); do rdma link delete $other; done
				rdma link add %[1]s0 type %[1]s netdev eth0 && sleep 1 && rdma resource show`
			before, err := vm.Exec(ctx, fmt.Sprintf(script, device))
			if err != nil {
				t.Fatal(err)
			}
			out, err := vm.Exec(ctx, `cd /tmp && GODEBUG=cgocheck=1 NFSRDMA_VERBS_ADDR=10.0.2.15 NFSRDMA_VERBS_SERVER=10.0.2.15:20049 \
				timeout 420 ./verbs.test -test.v -test.timeout 400s 2>&1`)
			var lines []string
			for line := range strings.Lines(out) {
				if s := strings.TrimSpace(line); !strings.HasPrefix(s, "===") {
					lines = append(lines, strings.TrimRight(line, "\n"))
				}
			}
			t.Log("\n" + strings.Join(lines, "\n"))
			if err != nil {
				t.Error(err)
			}
			after, err := vm.Exec(ctx, "rdma resource show")
			if err != nil || after != before {
				t.Errorf("RDMA objects before: %safter: %s%v", before, after, err)
			}
		})
	}
	trouble, err := vm.Trouble(t.Context())
	if err != nil {
		t.Error(err)
	}
	for _, line := range trouble {
		t.Errorf("kernel: %s", line)
	}
}
