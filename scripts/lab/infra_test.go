//go:build lab

package lab

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestVM(t *testing.T) {
	dir := t.TempDir()
	began := time.Now()
	vm, err := Start(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("served after %v", time.Since(began).Round(time.Second))
	defer func() {
		if t.Failed() {
			t.Log(vm.explain(context.Canceled))
		}
		if err := vm.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(dir + "/*"); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}()
	for range 20 {
		if err := nullIWARP(vm.RDMAAddr()); err != nil {
			t.Error(err)
		}
	}
	out, err := vm.Exec(t.Context(), "uname -r")
	if err != nil || !strings.Contains(out, ".") {
		t.Errorf("Exec = %q, %v", out, err)
	}
	_ = os.Stderr
}
