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
// and over siw, under the race detector and again with the C part and its uses
// of memory under the address sanitizer: the suite of providers, calls between
// its own ends and to the kernel's NFS server, NFS sessions, and on siw to and
// from software iWARP. Afterwards the kernel must hold no more RDMA objects than
// before.
func TestVerbs(t *testing.T) {
	instruments := []string{"race", "asan"}
	binaries := make(map[string]string)
	for _, how := range instruments {
		binaries[how] = filepath.Join(t.TempDir(), how)
		build := exec.CommandContext(t.Context(), "go", "test", "-c", "-"+how, "-o", binaries[how], "nfsrdma-fuse/rdma/verbs")
		build.Env = append(build.Environ(), "CGO_ENABLED=1")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building the tests: %v\n%s", err, out)
		}
	}
	vm, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer vm.Close()
	for how, binary := range binaries {
		if err := vm.Put(t.Context(), binary, "/tmp/verbs."+how, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The sanitizer's library, which is not in the machine, by the name that the
	// binary asks for.
	library, err := exec.CommandContext(t.Context(), "sh", "-c", "ldd "+binaries["asan"]+" | sed -n 's/.*libasan[^ ]* => \\([^ ]*\\) .*/\\1/p'").Output()
	if err != nil {
		t.Fatal(err)
	}
	if path := strings.TrimSpace(string(library)); path == "" {
		t.Fatal("gcc's address sanitizer is not on this machine")
	} else if err := vm.Put(t.Context(), path, "/usr/lib/x86_64-linux-gnu/"+filepath.Base(path), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, device := range []string{"rxe", "siw"} {
		t.Run(device, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
			defer cancel()
			// With both on one network card the kernel would choose.
			script := `
				for other in $(rdma link | sed -n 's|^link \([^/]*\)/.*|\1|p'); do rdma link delete $other; done
				rdma link add %[1]s0 type %[1]s netdev eth0 && sleep 1 && rdma resource show`
			before, err := vm.Exec(ctx, fmt.Sprintf(script, device))
			if err != nil {
				t.Fatal(err)
			}
			for _, how := range instruments {
				out, err := vm.Exec(ctx, `cd /tmp && GODEBUG=cgocheck=1 NFSRDMA_VERBS_ADDR=10.0.2.15 NFSRDMA_VERBS_SERVER=10.0.2.15:20049 \
				timeout 420 ./verbs.`+how+` -test.v -test.timeout 400s 2>&1`)
				var lines []string
				for line := range strings.Lines(out) {
					if s := strings.TrimSpace(line); !strings.HasPrefix(s, "===") {
						lines = append(lines, strings.TrimRight(line, "\n"))
					}
				}
				t.Log(how + "\n" + strings.Join(lines, "\n"))
				if err != nil {
					t.Errorf("%s: %v", how, err)
				}
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
