// Package lab makes real NFS servers available to tests, on a machine that
// has no RDMA device and no NFS in its kernel:
//
//   - [Start] boots a virtual machine with the Linux kernel's NFS server in
//     it, reachable over RDMA (siw, an iWARP device in software, through a
//     forwarded TCP port) and over TCP. The image is built once from Debian
//     packages by the script "image" and cached outside of the repository.
//   - [StartGanesha] starts NFS-Ganesha on this machine, over TCP.
//   - [StartCapture] records what goes over loopback, and has tshark tell
//     whether it is decodable iWARP, RPC-over-RDMA and NFS.
//
// Everything listens on ports of loopback that the kernel has chosen, becomes
// ready by an event and not by waiting a while, ends with Close, leaves no
// file behind, and is killed by the kernel when the test dies.
//
//	vm, err := lab.Start(ctx, lab.Options{})
//	defer vm.Close()
//	mount(vm.RDMAAddr())                           // host:port of the siw listener
//	out, err := vm.Exec(ctx, "cat /srv/nfs/file")  // a script in the machine
//	err = vm.WaitIdle(ctx)                         // no client, no connection left
//
// # The virtual machine
//
// Its server speaks NFSv4.0, 4.1 and 4.2, not version 3, and exports
//
//	/      ext4 on a disk of its own, 8 GiB unless Options say otherwise; /srv/nfs in the machine
//	/tmp   a tmpfs, so that there is a boundary between file systems to cross; /srv/nfs/tmp
//
// both writable for everybody (mode 1777), with no_root_squash, insecure and
// sec=sys. The lease is 15 seconds, the grace period 10, and at the end of
// Start it is over. After ServerStop and ServerStart with keepGrace the server
// waits for the clients it knew to reclaim.
//
// There are two RDMA devices, both on eth0 (10.0.2.15): rxe0 (RoCE), which
// clients inside of the machine get, and siw0 (iWARP), to which the host's
// port leads. A client on the host appears to come from 10.0.2.2. eth1
// carries the scripts, so that SetLink(false) takes away only the server.
// The machine reaches the host's loopback as 10.0.2.2.
//
// The machine's disks are an overlay of the image and a sparse file; nothing
// that happens in it outlives it. Its processors are emulated: only ratios
// between measurements mean anything.
//
// # By hand
//
// scripts/lab/up keeps a machine running and prints how to reach it.
//
// # Environment
//
//	NFSRDMA_LAB_CACHE   directory for images; default ~/.cache/nfsrdma-fuse/lab
//	NFSRDMA_LAB_MIRROR  Debian mirror for building an image; default: this machine's
//	NFSRDMA_LAB_ACCEL   qemu's accelerator, tcg (default) or kvm
//	TMPDIR              where disks and captures go; default /var/tmp
package lab
