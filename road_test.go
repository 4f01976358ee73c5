package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/rdma/verbs"
)

// TestChoice: what a connection goes over, by option and by what the machine
// has.
func TestChoice(t *testing.T) {
	const addr = "192.0.2.1:20049"
	none := errors.New("no device there")
	for _, c := range []struct {
		name, options, device string
		provider              string // of the choice; "": an error
		reason                string
	}{
		{"device", "proto=rdma", "mlx5_0", providerVerbs, "reaches"},
		{"no device", "proto=rdma", "", providerIWARP, none.Error()},
		{"verbs asked for", "provider=verbs", "mlx5_0", providerVerbs, "option provider"},
		{"verbs asked for, no device", "provider=verbs", "", "", ""},
		{"software asked for", "provider=iwarp", "mlx5_0", providerIWARP, "option provider"},
		{"TCP", "proto=tcp", "mlx5_0", protoTCP, "option proto"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := parseOptions([]string{c.options})
			if err != nil {
				t.Fatal(err)
			}
			r := newRoad([]string{addr}, s, logrus.New())
			defer r.close()
			r.probe = func(_ context.Context, a string) (string, error) {
				if a != addr {
					t.Errorf("probed %s", a)
				}
				if c.device == "" {
					return "", none
				}
				return c.device, nil
			}
			got, err := r.choose(t.Context(), addr)
			if c.provider == "" {
				if !errors.Is(err, none) {
					t.Errorf("%+v, %v", got, err)
				}
				return
			}
			if err != nil || got.Provider != c.provider || !strings.Contains(got.Reason, c.reason) || got.Addr != addr {
				t.Errorf("%+v, %v; want %s because of %q", got, err, c.provider, c.reason)
			}
			if (got.Device != "") != (c.provider == providerVerbs) {
				t.Errorf("device %q", got.Device)
			}
		})
	}
}

// TestNoDevices: provider=verbs on a machine without RDMA, and of a program that
// was built without cgo, fails with one line that tells what to do; without the
// option software iWARP is taken.
func TestNoDevices(t *testing.T) {
	needFUSE(t)
	server, port := startServer(t, nfstest.Options{})
	if _, err := new(verbs.Connector).Probe(t.Context(), "127.0.0.1:"+port); err == nil {
		t.Skip("an RDMA device reaches loopback")
	}
	r := runProgram(t, "mount.nfsrdma-fuse", "127.0.0.1:/", t.TempDir(), "-o", "provider=verbs,port="+port)
	oneLine(t, r, exitMount, "RDMA", "127.0.0.1", "provider=iwarp")

	bare := filepath.Join(t.TempDir(), "mount.nfsrdma-fuse")
	build := exec.Command("go", "build", "-o", bare, ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building without cgo: %v\n%s", err, out)
	}
	dir := t.TempDir()
	run := func(options string) (r result) {
		cmd := exec.Command(bare, "127.0.0.1:/", dir, "-o", options+"port="+port)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return result{status: cmd.ProcessState.ExitCode(), stderr: stderr.String()}
	}
	oneLine(t, run("provider=verbs,"), exitMount, "CGO_ENABLED=0", "provider=iwarp")
	if r := run(""); r.status != 0 {
		t.Fatal(r.stderr)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600); err != nil {
		t.Error(err)
	}
	if r := runProgram(t, "nfsrdma-fuse", "umount", dir); r.status != 0 {
		t.Error(r.stderr)
	}
	if b, err := server.ReadFile("/file"); err != nil || string(b) != "x" {
		t.Errorf("the server has %q, %v", b, err)
	}
}

// TestChoiceIsTold: the first choice is information, a change is a warning, and
// a reconnect the same way is neither.
func TestChoiceIsTold(t *testing.T) {
	log, hook := logtest.NewNullLogger()
	r := newRoad(nil, defaultSettings(), log)
	defer r.close()
	var told []choice
	r.took = func(c choice) { told = append(told, c) }
	device := choice{Provider: providerVerbs, Device: "siw0", Addr: "a:1", Reason: "the device reaches the server"}
	software := choice{Provider: providerIWARP, Addr: "a:1", Reason: "the device has gone"}
	for _, c := range []choice{device, device, software} {
		r.note(c, nil)
	}
	if len(told) != 2 || told[0] != device || told[1] != software {
		t.Errorf("told %+v", told)
	}
	entries := hook.AllEntries()
	if len(entries) != 2 || entries[0].Level != logrus.InfoLevel || entries[1].Level != logrus.WarnLevel ||
		!strings.Contains(entries[1].Message, "siw0") || !strings.Contains(entries[1].Message, software.Reason) {
		t.Errorf("log: %v", entries)
	}
}

// TestStatus: the status of a mount says what it goes over, and why.
func TestStatus(t *testing.T) {
	_, port := startServer(t, nfstest.Options{})
	dir := mountProgram(t, "provider=iwarp,port="+port)
	want := "127.0.0.1:/ on " + dir + " (process "
	over := "  over software iWARP to 127.0.0.1:" + port + "\n  because the option provider asks for it\n"
	for _, args := range [][]string{{"status"}, {"status", dir}} {
		r := runProgram(t, "nfsrdma-fuse", args...)
		if r.status != 0 || !strings.Contains(r.stdout, want) || !strings.Contains(r.stdout, over) {
			t.Errorf("%v: %d\n%s%s", args, r.status, r.stdout, r.stderr)
		}
	}
	oneLine(t, runProgram(t, "nfsrdma-fuse", "status", t.TempDir()), exitUsage, "is not mounted by nfsrdma-fuse")
}

// TestIPv6: both transports reach servers by IPv6 addresses.
func TestIPv6(t *testing.T) {
	needFUSE(t)
	server := nfstest.NewServer(nfstest.Options{})
	defer server.Close()
	for _, proto := range []string{"rdma", "rdma6", "tcp", "tcp6"} {
		t.Run(proto, func(t *testing.T) {
			listen := server.ListenRDMA
			if strings.HasPrefix(proto, protoTCP) {
				listen = server.ListenTCP
			}
			addr, err := listen("[::1]:0")
			if err != nil {
				t.Skipf("no IPv6 on loopback: %v", err)
			}
			dir := t.TempDir()
			_, port, _ := strings.Cut(addr.String(), "]:")
			r := runProgram(t, "mount.nfsrdma-fuse", "[::1]:/", dir, "-o", "proto="+proto+",port="+port)
			if r.status != 0 {
				t.Fatal(r.stderr)
			}
			if err := os.WriteFile(filepath.Join(dir, proto), []byte(proto), 0o600); err != nil {
				t.Error(err)
			}
			if r := runProgram(t, "nfsrdma-fuse", "umount", dir); r.status != 0 {
				t.Error(r.stderr)
			}
			if b, err := server.ReadFile("/" + proto); err != nil || string(b) != proto {
				t.Errorf("the server has %q, %v", b, err)
			}
		})
	}
	oneLine(t, runProgram(t, "mount.nfsrdma-fuse", "127.0.0.1:/", t.TempDir(), "-o", "proto=rdma6"), exitMount, "no IPv6 address", "127.0.0.1")
}

// TestManyAddresses: the addresses of a server are tried one after the other.
func TestManyAddresses(t *testing.T) {
	_, port := startServer(t, nfstest.Options{})
	s, err := parseOptions([]string{"provider=iwarp"})
	if err != nil {
		t.Fatal(err)
	}
	there := "127.0.0.1:" + port
	r := newRoad([]string{"127.0.0.1:1", there}, s, logrus.New())
	defer r.close()
	conn, err := r.dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := r.describe(); !strings.HasSuffix(got, there) {
		t.Errorf("connected over %s", got)
	}
	nobody := newRoad([]string{"127.0.0.1:1", "127.0.0.1:2"}, s, logrus.New())
	defer nobody.close()
	if _, err = nobody.dial(t.Context(), nil); err == nil || strings.Contains(err.Error(), "\n") ||
		!strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "127.0.0.1:2") {
		t.Errorf("error %v", err)
	}
}
