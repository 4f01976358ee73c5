//go:build cgo && linux

package verbs

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
)

// TestNFS holds an NFS session between the ends, each of which may be a device
// or software iWARP: data both ways, long listings, a recall on the back channel
// and a lost connection.
func TestNFS(t *testing.T) {
	connections(t, func(t *testing.T, l rdma.Listener, connector rdma.Connector) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		server := nfstest.NewServer(nfstest.Options{})
		defer server.Close()
		var running sync.WaitGroup
		running.Go(func() {
			for i := 0; ; i++ {
				// The server counts a connection from the moment that it is
				// asked for its handler: so it is asked when there is one.
				var h ulb.Handler
				known := make(chan struct{})
				c, err := rdma.Accept(ctx, l, rdma.Config{Handler: func(ctx context.Context, req *ulb.Request, respond func(xdr.Message) error) {
					<-known
					h(ctx, req, respond)
				}})
				if err != nil {
					return
				}
				running.Go(func() {
					err := server.ServeConn(fmt.Sprintf("connection-%d", i), func(_ context.Context, handler ulb.Handler) (nfstest.Conn, error) {
						h = handler
						close(known)
						return c, nil
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
		})
		defer func() {
			l.Close()
			running.Wait()
		}()

		data := make([]byte, 3<<20+5)
		for i := range data {
			data[i] = byte(i * 7 >> 3)
		}
		tree := map[string]string{"there": string(data)}
		for i := range 300 {
			tree[fmt.Sprintf("many/a-name-of-some-length-%d", i)] = "x"
		}
		if err := server.Seed(tree); err != nil {
			t.Fatal(err)
		}
		c, err := nfsclient.New(ctx, nfsclient.Options{Dial: func(ctx context.Context, back ulb.Handler) (nfsclient.Transport, error) {
			return rdma.Dial(ctx, connector, l.Addr().String(), rdma.Config{Handler: back})
		}})
		if err != nil {
			t.Fatal(err)
		}
		root, _ := c.Root()
		open := func(q nfsclient.OpenRequest) *nfsclient.File {
			t.Helper()
			q.Dir = root
			f, _, _, err := c.Open(ctx, nfsclient.Cred{}, q)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		readAll := func(f *nfsclient.File) {
			t.Helper()
			for off := 0; off < len(data); {
				buf, n, _, err := f.Read(ctx, int64(off), 1<<20)
				if err != nil || n == 0 {
					t.Fatalf("reading at %d: %d, %v", off, n, err)
				}
				if !bytes.Equal(buf.Data[:n], data[off:off+n]) {
					t.Fatalf("what was read at %d differs", off)
				}
				buf.Release()
				off += n
			}
		}
		there := open(nfsclient.OpenRequest{Name: "there", Read: true})
		readAll(there)
		f := open(nfsclient.OpenRequest{Name: "new", Read: true, Write: true, Create: true})
		if n, err := f.Write(ctx, 0, data); err != nil || n != len(data) {
			t.Fatalf("%d bytes written, %v", n, err)
		}
		server.RecallAll()
		server.Disconnect()
		if err := f.Sync(ctx); err != nil {
			t.Error(err)
		}
		readAll(f)
		readAll(there)
		if n := c.Stats().Reconnects; n == 0 {
			t.Error("the connection was cut, and there was no reconnect")
		}
		if got, err := server.ReadFile("/new"); err != nil || !bytes.Equal(got, data) {
			t.Errorf("the server has %d bytes, %v", len(got), err)
		}
		dir, _, err := c.Walk(ctx, nfsclient.Cred{}, "/many")
		if err != nil {
			t.Fatal(err)
		}
		names, cookie, verf := 0, uint64(0), nfs4.Verifier{}
		for eof := false; !eof; {
			page, err := c.ReadDir(ctx, nfsclient.Cred{}, dir, cookie, verf, true, 0)
			if err != nil {
				t.Fatal(err)
			}
			for e := new(nfsclient.DirEntry); page.Next(e); names++ {
				cookie = e.Cookie
			}
			verf, eof = page.Verf, page.EOF
			page.Release()
		}
		if names != 300 {
			t.Errorf("%d names listed, 300 are there", names)
		}
		for _, f := range []*nfsclient.File{there, f} {
			if err := f.Close(ctx); err != nil {
				t.Error(err)
			}
		}
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := server.WaitClean(ctx); err != nil {
			t.Error(err)
		}
	})
}
