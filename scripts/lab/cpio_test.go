package lab

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// TestCPIO has another implementation read what cpioArchive writes.
func TestCPIO(t *testing.T) {
	program, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("cpio is not installed (scripts/setup lab)")
	}
	var a cpioArchive
	a.add("lab", cpioDir|0o700, nil)
	a.add("lab/odd", cpioFile|0o644, []byte("12345"))
	a.add("lab/none", cpioFile|0o600, nil)
	archive := a.bytes()
	if len(archive)%512 != 0 {
		t.Errorf("%d octets: what follows does not begin where it may", len(archive))
	}
	list := exec.Command(program, "-itv", "--quiet", "--numeric-uid-gid")
	list.Stdin = bytes.NewReader(archive)
	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		got = append(got, f[0]+" "+f[4]+" "+f[len(f)-1])
	}
	if want := "drwx------ 0 lab, -rw-r--r-- 5 lab/odd, -rw------- 0 lab/none"; strings.Join(got, ", ") != want {
		t.Errorf("the archive holds %q, want %q", got, want)
	}
	cat := exec.Command(program, "-i", "--quiet", "--to-stdout", "lab/odd")
	cat.Stdin = bytes.NewReader(archive)
	if out, err := cat.Output(); err != nil || string(out) != "12345" {
		t.Errorf("lab/odd holds %q, %v", out, err)
	}
}
