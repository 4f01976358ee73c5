package nfstest_test

import (
	"context"
	"fmt"
	"log"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// A client reads a file while the server is restarted under it.
func ExampleServer() {
	s := nfstest.NewServer(nfstest.Options{})
	defer s.Close()
	if err := s.Seed(map[string]string{"docs/hello": "Hello, world"}); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	client, err := nfsclient.New(ctx, nfsclient.Options{
		Dial: func(ctx context.Context, back ulb.Handler) (nfsclient.Transport, error) { return s.Dial(ctx, back) },
	})
	if err != nil {
		log.Fatal(err)
	}
	fh, _, err := client.Walk(ctx, nfsclient.Cred{}, "/docs/hello")
	if err != nil {
		log.Fatal(err)
	}
	file, _, _, err := client.Open(ctx, nfsclient.Cred{}, nfsclient.OpenRequest{FH: fh, Read: true})
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Restart(nfstest.RestartOptions{}); err != nil {
		log.Fatal(err)
	}
	buf, n, _, err := file.Read(ctx, 0, 100)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", buf.Data[:n])
	buf.Release()
	if err := file.Close(ctx); err != nil {
		log.Fatal(err)
	}
	if err := client.Close(ctx); err != nil {
		log.Fatal(err)
	}
	if err := s.WaitClean(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("clients that reclaimed:", s.Count(nfs4.OpReclaimComplete)-1)
	// Output:
	// Hello, world
	// clients that reclaimed: 1
}
