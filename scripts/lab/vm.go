package lab

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

//go:embed guest/init
var guestInit []byte

//go:embed guest/server
var guestServer []byte

// Options say how a virtual machine is to be. The zero value is what the
// tests use.
type Options struct {
	// Memory of the machine in MiB; 0 is 4096. The server derives from it how
	// many session slots it grants and, unless MaxBlock is set, the largest
	// READ and WRITE: 512 KiB with 4096.
	Memory int
	// Processors; 0 is 2.
	Processors int
	// Accel is qemu's accelerator, "tcg" or "kvm". Empty takes
	// $NFSRDMA_LAB_ACCEL, and tcg without it: there are hosts on which
	// /dev/kvm exists and cannot be relied on.
	Accel string
	// Threads of the NFS server; 0 is 8.
	Threads int
	// MaxBlock is the largest READ and WRITE of the server in octets; 0 leaves
	// the choice to the server.
	MaxBlock int
	// Lease and Grace of the server, full seconds; 0 is 15 s and 10 s.
	Lease, Grace time.Duration
	// DiskMiB is the size of the exported ext4 file system; 0 is 8192. The
	// file behind it is sparse.
	DiskMiB int
	// TmpfsMiB is the size of the exported tmpfs; 0 is half of Memory.
	TmpfsMiB int
	// Dir is where the machine's own files go, in a directory that Close
	// removes; empty is $TMPDIR, else /var/tmp.
	Dir string
	// Log gets what the building of the image and of the machine's agent has
	// to say; nil is os.Stderr.
	Log io.Writer
}

func (o *Options) defaults() {
	setInt := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	setInt(&o.Memory, 4096)
	setInt(&o.Processors, 2)
	setInt(&o.Threads, 8)
	setInt(&o.DiskMiB, 8192)
	setInt(&o.TmpfsMiB, o.Memory/2)
	if o.Lease == 0 {
		o.Lease = 15 * time.Second
	}
	if o.Grace == 0 {
		o.Grace = 10 * time.Second
	}
	if o.Accel == "" {
		o.Accel = os.Getenv("NFSRDMA_LAB_ACCEL")
	}
	if o.Accel == "" {
		o.Accel = "tcg"
	}
	if o.Log == nil {
		o.Log = os.Stderr
	}
}

// VM is a running virtual machine with the kernel's NFS server in it.
// Its methods may be used by several goroutines at once.
type VM struct {
	Control // runs scripts in the machine

	dir        *tempDir
	qemu       *process
	qmp        *qmp
	console    *console
	rdma, tcp  string
	closeOnce  sync.Once
	consoleEnd *os.File
}

// guestPort is a port inside the machine that can be reached from the host.
type guestPort struct {
	card, addr, port string
}

var (
	portRDMA  = guestPort{"nfs", "10.0.2.15", "20049"}
	portTCP   = guestPort{"nfs", "10.0.2.15", "2049"}
	portAgent = guestPort{"ctl", "10.0.3.15", "7"}
)

// Start boots a machine, building its image first where it is not cached, and
// returns when the NFS server serves and its grace period is over. Ending ctx
// afterwards has no effect.
func Start(ctx context.Context, o Options) (_ *VM, err error) {
	o.defaults()
	image, err := buildImage(ctx, o.Log)
	if err != nil {
		return nil, err
	}
	dir, err := newTempDir(o.Dir, "vm")
	if err != nil {
		return nil, err
	}
	vm := &VM{dir: dir}
	defer func() {
		if err != nil {
			err = vm.explain(err)
			vm.Close()
		}
	}()
	vm.Token = rand.Text()
	if err := vm.prepare(ctx, o, image); err != nil {
		return nil, err
	}
	if err := vm.boot(o, image); err != nil {
		return nil, err
	}
	for port, addr := range map[guestPort]*string{portRDMA: &vm.rdma, portTCP: &vm.tcp, portAgent: &vm.Addr} {
		if *addr, err = vm.forwarded(port); err != nil {
			return nil, err
		}
	}
	select {
	case err := <-vm.console.ready:
		return vm, err
	case <-vm.qemu.done:
		return nil, fmt.Errorf("qemu ended while the machine booted: %v", vm.qemu.err)
	case <-ctx.Done():
		return nil, fmt.Errorf("booting the machine: %w", context.Cause(ctx))
	}
}

// sourceDir is the directory of this package's source: the image's recipe and
// the agent are built from it.
func sourceDir() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", errors.New("the lab does not know where its source is (built with -trimpath?)")
	}
	return filepath.Dir(file), nil
}

// buildImage returns the directory of the machine's image.
func buildImage(ctx context.Context, log io.Writer) (string, error) {
	src, err := sourceDir()
	if err != nil {
		return "", err
	}
	last := &tail{max: 1 << 10}
	cmd := exec.CommandContext(ctx, filepath.Join(src, "image"))
	cmd.Stderr = io.MultiWriter(log, last)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it cleans up
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building the machine's image: %w: %s", err, bytes.TrimSpace(last.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}

// prepare makes the files that this machine needs besides the image.
func (vm *VM) prepare(ctx context.Context, o Options, image string) error {
	src, err := sourceDir()
	if err != nil {
		return err
	}
	agent := vm.file("agent")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", agent, "./cmd/agent")
	build.Dir = src
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the machine's agent: %w: %s", err, bytes.TrimSpace(out))
	}
	binary, err := os.ReadFile(agent)
	if err != nil {
		return err
	}
	seconds := func(d time.Duration) int { return max(1, int(d/time.Second)) }
	config := fmt.Sprintf("LEASE=%d GRACE=%d THREADS=%d MAX_BLOCK=%d TMPFS_SIZE=%dm\n",
		seconds(o.Lease), seconds(o.Grace), o.Threads, o.MaxBlock, o.TmpfsMiB)
	var archive cpioArchive
	archive.add("lab", cpioDir|0o700, nil)
	archive.add("lab/init", cpioFile|0o755, guestInit)
	archive.add("lab/server", cpioFile|0o755, guestServer)
	archive.add("lab/agent", cpioFile|0o755, binary)
	archive.add("lab/config", cpioFile|0o644, []byte(config))
	archive.add("lab/token", cpioFile|0o600, []byte(vm.Token))
	first, err := os.ReadFile(filepath.Join(image, "initrd.img"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(vm.file("initrd.img"), append(archive.bytes(), first...), 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", filepath.Join(image, "root.img"), vm.file("root.qcow2")},
		{"mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0", vm.file("data.img"), fmt.Sprintf("%dM", o.DiskMiB)},
	} {
		cmd := exec.CommandContext(ctx, lookPath(args[0]), args[1:]...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", args[0], err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// lookPath finds a program also where only root's PATH looks.
func lookPath(name string) string {
	for _, dir := range []string{"", "/usr/local/sbin/", "/usr/sbin/", "/sbin/"} {
		if path, err := exec.LookPath(dir + name); err == nil {
			return path
		}
	}
	return name // its start gives the error
}

func (vm *VM) file(name string) string { return vm.dir.file(name) }

// boot starts qemu. Its monitor is on its standard streams, the machine's
// console on a pipe.
func (vm *VM) boot(o Options, image string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	vm.consoleEnd = r
	if vm.console, err = newConsole(vm.Console(), r); err != nil {
		return err
	}
	cpu := "max"
	if o.Accel == "tcg" {
		o.Accel = "tcg,thread=multi"
	} else {
		cpu = "host"
	}
	// Port 0 has the kernel choose; forwarded asks which it took.
	forward := func(p guestPort) string { return fmt.Sprintf("hostfwd=tcp:127.0.0.1:0-%s:%s", p.addr, p.port) }
	cmd := exec.Command(lookPath("qemu-system-x86_64"),
		"-name", "nfsrdma-lab", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-accel", o.Accel, "-cpu", cpu, "-smp", strconv.Itoa(o.Processors), "-m", strconv.Itoa(o.Memory),
		"-kernel", filepath.Join(image, "vmlinuz"), "-initrd", vm.file("initrd.img"),
		"-append", "console=ttyS0 loglevel=5 panic=-1 oops=panic net.ifnames=0 mitigations=off",
		"-chardev", "file,id=console,path=/dev/fd/3", "-serial", "chardev:console",
		"-qmp", "stdio",
		// What the machine writes lives as long as it does: no need to wait for the disk.
		"-drive", "file="+vm.file("root.qcow2")+",if=virtio,format=qcow2,cache=unsafe",
		"-drive", "file="+vm.file("data.img")+",if=virtio,format=raw,cache=unsafe,discard=unmap",
		// Packets leave in batches of 60 µs: one by one they keep qemu's main loop
		// from anything else, and siw sends small ones.
		"-netdev", "user,id=nfs,"+forward(portRDMA)+","+forward(portTCP), "-device", "virtio-net-pci,netdev=nfs,romfile=,tx=timer,x-txtimer=60000",
		"-netdev", "user,id=ctl,net=10.0.3.0/24,restrict=on,"+forward(portAgent), "-device", "virtio-net-pci,netdev=ctl,romfile=",
		"-device", "virtio-rng-pci",
	)
	cmd.ExtraFiles = []*os.File{w}
	stderr := &tail{max: 4 << 10}
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	// Not StdoutPipe: reaping qemu must not pull the stream from under the reader.
	out, outWriter := io.Pipe()
	cmd.Stdout = outWriter
	if vm.qemu, err = startProcess(cmd); err != nil {
		return err
	}
	go func() {
		<-vm.qemu.done
		outWriter.Close()
	}()
	if vm.qmp, err = newQMP(in, out); err != nil {
		vm.qemu.kill()
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

// forwarded asks qemu which port of the host leads to a port of the machine.
func (vm *VM) forwarded(p guestPort) (string, error) {
	table, err := vm.qmp.human("info usernet")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(table) {
		// TCP[HOST_FORWARD]  FD  SOURCE PORT  DEST PORT  RECVQ SENDQ
		f := strings.Fields(line)
		if len(f) >= 6 && f[0] == "TCP[HOST_FORWARD]" && f[4] == p.addr && f[5] == p.port {
			return f[2] + ":" + f[3], nil
		}
	}
	return "", fmt.Errorf("qemu forwards no port to %s:%s:\n%s", p.addr, p.port, table)
}

// RDMAAddr is the host:port that leads to the server's NFS/RDMA listener:
// siw, to be spoken to in iWARP over TCP.
func (vm *VM) RDMAAddr() string { return vm.rdma }

// TCPAddr is the host:port that leads to the server's NFS/TCP listener.
func (vm *VM) TCPAddr() string { return vm.tcp }

// Console is the path of a file with all that the machine has printed on its
// console; kernel warnings are in it. It goes with Close.
func (vm *VM) Console() string { return vm.file("console.log") }

// SetLink takes the machine's network card away or gives it back, as pulling
// its cable does. The control channel is not affected.
func (vm *VM) SetLink(up bool) error {
	return vm.qmp.do("set_link", map[string]any{"name": portRDMA.card, "up": up}, nil)
}

// Pause stops the machine's processors: the server falls silent, and its
// connections stay.
func (vm *VM) Pause() error { return vm.qmp.do("stop", nil, nil) }

// Resume lets a paused machine go on.
func (vm *VM) Resume() error { return vm.qmp.do("cont", nil, nil) }

// explain adds the end of the console to an error.
func (vm *VM) explain(err error) error {
	if vm.console == nil {
		return err
	}
	return fmt.Errorf("%w; the console's last lines:\n%s", err, vm.console.last())
}

// Close powers the machine off and removes its files. What the exported file
// systems held is gone.
func (vm *VM) Close() error {
	vm.closeOnce.Do(func() {
		if vm.qemu != nil {
			// Nothing in the machine is worth a shutdown: its disks go too.
			asked := make(chan struct{})
			go func() {
				defer close(asked)
				if vm.qmp != nil {
					vm.qmp.do("quit", nil, nil) // fails when it has ended already
				}
			}()
			vm.qemu.end(5 * time.Second)
			<-asked
		}
		if vm.console != nil {
			vm.console.wait()
		}
		if vm.consoleEnd != nil {
			vm.consoleEnd.Close()
		}
	})
	return vm.dir.remove()
}

// Done is closed when the machine has gone, asked to or not.
func (vm *VM) Done() <-chan struct{} { return vm.qemu.done }
