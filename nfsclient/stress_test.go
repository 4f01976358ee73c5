package nfsclient

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/xdr/nfs4"
)

// Many goroutines work on a few files, of the same owner, while connections are cut, the
// server restarts with and without its state, delegations are recalled and
// operations fail for a time. Every read sees what was written, and in the end
// nothing is left anywhere.
func TestStress(t *testing.T) {
	const workers, rounds, names = 8, 40, 3
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, nfstest.Options{Lease: 30 * time.Second})
				c := g.client(func(o *Options) { o.MaxUncommitted = 256 << 10 })
				dir, _ := c.Root()
				var stop atomic.Bool
				var trouble sync.WaitGroup
				trouble.Go(func() {
					rnd := rand.New(rand.NewPCG(seed, 0))
					for !stop.Load() {
						time.Sleep(time.Duration(rnd.IntN(500)) * time.Millisecond)
						switch n := rnd.IntN(10); {
						case n < 4:
							g.srv.Disconnect()
						case n < 6:
							g.srv.RecallAll()
						case n < 8:
							ops := []nfs4.OpNum{nfs4.OpRead, nfs4.OpWrite, nfs4.OpOpen, nfs4.OpClose, nfs4.OpSequence, nfs4.OpCommit}
							g.srv.FailNext(ops[rnd.IntN(len(ops))], nfs4.ErrDelay, 3)
						default:
							if err := g.srv.Restart(nfstest.RestartOptions{KeepState: !restart}); err != nil {
								t.Error(err)
							}
						}
					}
				})
				var wg sync.WaitGroup
				for w := range workers {
					wg.Go(func() {
						rnd := rand.New(rand.NewPCG(seed, uint64(w)+1))
						for range rounds {
							time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
							q := OpenRequest{Dir: dir, Name: fmt.Sprint("f", rnd.IntN(names)), Read: true, Write: true, Create: true}
							f, _, _, err := c.Open(t.Context(), root, q)
							if err != nil {
								t.Errorf("open: %v", err)
								return
							}
							r, _, _, err := c.Open(t.Context(), root, OpenRequest{FH: f.FH(), Read: true})
							if err != nil {
								t.Errorf("open for reading: %v", err)
								return
							}
							// Everybody has a piece of each file.
							off := int64(w) * 20000
							data := pattern(rnd.Uint64(), 1+rnd.IntN(20000))
							if n, err := f.Write(t.Context(), off, data); n != len(data) || err != nil {
								t.Errorf("write: %d, %v", n, err)
							}
							if rnd.IntN(2) == 0 {
								if err := f.Close(t.Context()); err != nil {
									t.Errorf("close: %v", err)
								}
								f = nil
							}
							buf, n, _, err := r.Read(t.Context(), off, len(data))
							if err != nil || !bytes.Equal(buf.Data[:n], data) {
								t.Errorf("read: %d of %d bytes, %v, or wrong ones", n, len(data), err)
							}
							buf.Release()
							for _, f := range []*File{f, r} {
								if f == nil {
									continue
								}
								if err := f.Close(t.Context()); err != nil {
									t.Errorf("close: %v", err)
								}
							}
						}
					})
				}
				wg.Wait()
				stop.Store(true)
				trouble.Wait()
				t.Logf("%+v", c.Stats())
			})
		})
	}
}
