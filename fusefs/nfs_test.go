package fusefs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/posixtest"

	"nfsrdma-fuse/fusefs/conformance"
	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/nfsclient/tcp"
	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/iwarp"
	"nfsrdma-fuse/ulb"
)

// roads are the ways from a client to the embedded server.
var roads = map[string]func(*nfstest.Server, *ulb.Pool) (nfsclient.Dialer, error){
	"tcp": func(s *nfstest.Server, pool *ulb.Pool) (nfsclient.Dialer, error) {
		addr, err := s.ListenTCP("127.0.0.1:0")
		return func(ctx context.Context, back ulb.Handler) (nfsclient.Transport, error) {
			return tcp.Dial(ctx, addr.String(), tcp.Config{Handler: back, Pool: pool})
		}, err
	},
	"iwarp": func(s *nfstest.Server, pool *ulb.Pool) (nfsclient.Dialer, error) {
		addr, err := s.ListenRDMA("127.0.0.1:0")
		return func(ctx context.Context, back ulb.Handler) (nfsclient.Transport, error) {
			return rdma.Dial(ctx, &iwarp.Connector{}, addr.String(), rdma.Config{Handler: back, Pool: pool})
		}, err
	},
}

func init() {
	for name := range roads {
		helperBackends[name] = func(a helperArgs) (*FS, func() error, error) { return mountNFS(name, a) }
	}
}

// mountNFS starts the embedded server and mounts it.
func mountNFS(road string, a helperArgs) (*FS, func() error, error) {
	n, err := startNFS(road, nfstest.Options{}, nfsclient.Options{Log: a.Options.Log})
	if err != nil {
		return nil, nil, err
	}
	root, attrs := n.client.Root()
	fs, err := Mount(a.Dir, n.client, root, attrs, a.Options)
	if err != nil {
		return nil, nil, errors.Join(err, n.stop())
	}
	return fs, n.stop, nil
}

// nfs is an embedded server with a client.
type nfs struct {
	server *nfstest.Server
	client *nfsclient.Client
	pool   *ulb.Pool
}

func startNFS(road string, so nfstest.Options, co nfsclient.Options) (*nfs, error) {
	n := &nfs{server: nfstest.NewServer(so)}
	if err := n.connect(road, co); err != nil {
		n.server.Close()
		return nil, err
	}
	return n, nil
}

// another is a second client of the server, over TCP.
func (n *nfs) another() (*nfs, error) {
	other := &nfs{server: n.server}
	return other, other.connect("tcp", nfsclient.Options{})
}

func (n *nfs) connect(road string, co nfsclient.Options) error {
	n.pool = ulb.NewPool(ulb.HeapMemory{}, 128<<20)
	dial, err := roads[road](n.server, n.pool)
	if err == nil {
		co.Dial = dial
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		n.client, err = nfsclient.New(ctx, co)
	}
	if err != nil {
		n.pool.Close()
	}
	return err
}

// leave ends the client and tells what was left behind.
func (n *nfs) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := n.client.Close(ctx)
	if used := n.pool.InUse(); used != 0 {
		err = errors.Join(err, fmt.Errorf("%d payload buffers are still in use", used))
	}
	n.pool.Close()
	return err
}

// stop ends client and server and tells what was left behind.
func (n *nfs) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := n.leave()
	if e := n.server.WaitClean(ctx); e != nil {
		err = errors.Join(err, e)
		n.dump()
	}
	n.server.Close()
	return err
}

// dump writes the requests that the server remembers to the file that
// FUSEFS_EVENTS names.
func (n *nfs) dump() {
	f, err := os.Create(os.Getenv("FUSEFS_EVENTS"))
	if err != nil {
		return
	}
	defer f.Close()
	for _, e := range n.server.Events(0) {
		fmt.Fprint(f, e.String())
		for _, o := range e.Ops {
			fmt.Fprintf(f, " %d", o.FileID)
		}
		fmt.Fprintln(f)
	}
}

// TestConformance runs the conformance cases on mounts of the embedded server.
func TestConformance(t *testing.T) {
	haveFUSE(t)
	for _, road := range []string{"tcp", "iwarp"} {
		t.Run(road, func(t *testing.T) {
			t.Parallel()
			conformance.Run(t, helper(t, road, "", Options{AllowOther: true}), small)
		})
	}
}

// TestServerPermissions leaves permissions to the server.
func TestServerPermissions(t *testing.T) {
	haveFUSE(t)
	o := small
	o.Only = []string{"CreateReadOnlyModeWritable", "OpenErrors", "OpenAccessModes", "TruncateErrors", "Chmod", "Chown",
		"SetuidBits", "SetTimes", "Access", "Permissions", "Groups", "EntryTypes", "ConcurrentSameNames"}
	conformance.Run(t, helper(t, "tcp", "", Options{AllowOther: true, ServerPermissions: true}), o)
}

// posixExcluded are the cases of go-fuse's suite that do not run here, each
// with its reason.
var posixExcluded = map[string]string{
	"FallocateKeepSize": "NFS cannot reserve space behind the end of a file and leave its size",
	"OpenSymlinkRace":   "long, and its race is among those of ConcurrentSameNames",
	// The case expects two descriptors of one process to get into each other's
	// way, which POSIX locks do not.
	"FcntlFlockLocksFile": "the case is wrong: locks of one process do not conflict",
}

// TestPosix runs go-fuse's own suite on a mount of the embedded server.
func TestPosix(t *testing.T) {
	haveFUSE(t)
	dir := helper(t, "tcp", "", Options{AllowOther: true})
	for name, run := range posixtest.All {
		t.Run(name, func(t *testing.T) {
			if reason := posixExcluded[name]; reason != "" {
				t.Skip(reason)
			}
			sub := filepath.Join(dir, name)
			if err := os.Mkdir(sub, 0o777); err != nil {
				t.Fatal(err)
			}
			run(t, sub)
		})
	}
}
