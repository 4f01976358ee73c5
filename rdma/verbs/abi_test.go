package verbs

import (
	"os/exec"
	"testing"
)

// TestABI compares what abi.h declares with the headers of the libraries.
func TestABI(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc on this machine")
	}
	probe := exec.Command(cc, "-E", "-x", "c", "-", "-include", "infiniband/verbs.h", "-include", "rdma/rdma_cma.h")
	if probe.Run() != nil {
		t.Skip("no headers of libibverbs and librdmacm on this machine (Debian: libibverbs-dev, librdmacm-dev)")
	}
	if out, err := exec.Command(cc, "-Wall", "-Werror", "-fsyntax-only", "testdata/abicheck.c").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
