package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"nfsrdma-fuse/fusefs"
	"nfsrdma-fuse/nfsclient"
)

// closeLimit is how long an unmounted file system may take to give its state
// back to the server, if the server answers at all.
const closeLimit = 30 * time.Second

// checkMountPoint returns the absolute path of dir without symbolic links, or
// says why nothing can be mounted there.
func checkMountPoint(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("mount point %s does not exist: create it (mkdir %s)", dir, dir)
	}
	if errors.Is(err, unix.ENOTCONN) {
		return "", fmt.Errorf("mount point %s is a mount whose process is gone: unmount it first (nfsrdma-fuse umount %s)", dir, dir)
	}
	if err != nil {
		return "", fmt.Errorf("mount point: %w", err)
	}
	st, err := os.Stat(abs)
	if err != nil {
		return "", fmt.Errorf("mount point: %w", err)
	}
	if !st.IsDir() {
		return "", fmt.Errorf("mount point %s is not a directory", dir)
	}
	return abs, nil
}

// resolve returns the addresses to connect to, in the order of the resolver.
func resolve(ctx context.Context, s spec, o settings) ([]string, error) {
	family := "ip"
	if o.IPv6 {
		family = "ip6"
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, family, s.Host)
	if err != nil {
		var dns *net.DNSError
		var none *net.AddrError
		switch {
		case o.IPv6 && (errors.As(err, &none) || errors.As(err, &dns) && dns.IsNotFound):
			return nil, fmt.Errorf("no IPv6 address is known of %s: check the name, or leave out the 6 of %s6", s.Host, o.Proto)
		case errors.As(err, &dns) && dns.IsNotFound:
			return nil, fmt.Errorf("unknown host %s: check the name, or give an address", s.Host)
		}
		return nil, fmt.Errorf("looking up %s: %w", s.Host, err)
	}
	var addrs []string
	for _, ip := range ips {
		addrs = append(addrs, netip.AddrPortFrom(ip.Unmap(), uint16(o.port())).String())
	}
	return addrs, nil
}

// mounted is an export that is mounted, with everything it stands on.
type mounted struct {
	source spec
	dir    string
	record *record
	road   *road
	client *nfsclient.Client
	fs     *fusefs.FS
}

// mountExport connects to the server and mounts the export on dir. What it
// has set up is undone when a later step fails.
func mountExport(ctx context.Context, source spec, dir string, s settings) (m *mounted, err error) {
	if err := checkFUSE(); err != nil {
		return nil, err
	}
	asked := ctx
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	// overdue gives an error that came of the end of that time its proper name:
	// whichever step was cut short may know only that it was.
	overdue := func(err error) error {
		if errors.Is(err, context.Canceled) && asked.Err() == nil {
			return fmt.Errorf("%w (%v)", context.DeadlineExceeded, err)
		}
		return err
	}
	m = &mounted{source: source, dir: dir}
	defer func() {
		if err != nil {
			m.close()
			m = nil
		}
	}()
	addrs, err := resolve(ctx, source, s)
	if err != nil {
		return m, err
	}
	if m.record, err = writeRecord(source, dir); err != nil {
		return m, err
	}
	m.road = newRoad(addrs, s, logrus.StandardLogger())
	m.road.took = func(c choice) {
		if err := m.record.setTransport(c); err != nil {
			logrus.WithError(err).Warn("the status of the mount could not be recorded")
		}
	}
	m.client, err = nfsclient.New(ctx, nfsclient.Options{
		Dial:         m.road.dial,
		Server:       source.Host,
		MinorVersion: s.Minor,
		RSize:        s.RSize,
		WSize:        s.WSize,
		Soft:         s.Soft,
		Timeout:      s.Timeout,
		Retrans:      s.Retrans,
		Log:          logrus.StandardLogger(),
	})
	if err != nil {
		return m, explain(overdue(err), source, addrs, s)
	}
	cred := nfsclient.Cred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	root, attrs, err := m.client.Walk(ctx, cred, source.Export)
	if err != nil {
		return m, explain(overdue(err), source, addrs, s)
	}
	m.fs, err = fusefs.Mount(dir, m.client, root, attrs, fsOptions(source, s))
	if err != nil {
		return m, err
	}
	logrus.Infof("%s is mounted on %s over %s", source, dir, m.road.describe())
	return m, nil
}

// fsOptions are the settings that are the file system's.
func fsOptions(source spec, s settings) fusefs.Options {
	return fusefs.Options{
		Source:      source.String(),
		ReadOnly:    s.ReadOnly,
		AllowOther:  s.AllowOther,
		LocalFlock:  s.LocalFlock,
		LocalPOSIX:  s.LocalPOSIX,
		Kernel:      s.Kernel,
		AcRegMin:    orNone(s.AcRegMin),
		AcRegMax:    orNone(s.AcRegMax),
		AcDirMin:    orNone(s.AcDirMin),
		AcDirMax:    orNone(s.AcDirMax),
		NoAC:        s.NoAC,
		NoCTO:       s.NoCTO,
		LookupCache: s.Lookup,
		IDs:         &fusefs.NameIDs{Domain: s.Domain},
		Log:         logrus.StandardLogger(),
	}
}

// orNone turns a time of zero into what means that to fusefs.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// wait serves until the file system is unmounted, and unmounts it when ctx is
// done.
func (m *mounted) wait(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		limit, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		if err := m.fs.Unmount(limit); err != nil {
			logrus.WithError(err).Warn("unmounting")
		}
	})
	defer stop()
	m.fs.Wait()
}

// logMoved logs what became of file data since the mount, and how much of it
// was copied in memory by this program on its way: nothing of what was read and
// all of what was written once, where the transport takes data from buffers and
// places it there.
func (m *mounted) logMoved() {
	fs := m.fs.Stats()
	copied := fs.BytesCopied + m.client.Stats().BytesCopied
	if st, ok := m.road.stats(); ok { // of the present connection
		copied += st.BytesCopied
	}
	logrus.Infof("%s: %d bytes read, %d written, %d copied", m.dir, fs.BytesRead, fs.BytesWritten, copied)
}

// close gives the state back to the server and frees what mountExport has set
// up, of which a part may be missing.
func (m *mounted) close() {
	if m.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		if err := m.client.Close(ctx); err != nil {
			logrus.WithError(err).Warn("the server may keep state of this client until its lease ends")
		}
	}
	if m.road != nil {
		m.road.close()
	}
	if m.record != nil {
		m.record.remove()
	}
}

// runMount mounts and serves until the file system is unmounted or ctx is
// done. It calls ready when the mount can be used.
func runMount(ctx context.Context, source spec, dir string, s settings, ready func() error) error {
	unix.Umask(0) // the kernel has applied the caller's; ours must not come on top
	m, err := mountExport(ctx, source, dir, s)
	if err != nil {
		return err
	}
	defer m.close()
	if !s.Verbose {
		logrus.SetLevel(logrus.WarnLevel)
	}
	if err := ready(); err != nil {
		logrus.WithError(err).Warn("could not detach from the terminal")
	}
	m.wait(ctx)
	m.logMoved()
	return nil
}

// checkFUSE says what is missing for FUSE mounts on this machine.
func checkFUSE() error {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	switch {
	case err == nil:
		return f.Close()
	case errors.Is(err, os.ErrNotExist):
		return errors.New("/dev/fuse does not exist: load the kernel module (modprobe fuse); in a container, pass the device (--device /dev/fuse)")
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("/dev/fuse cannot be opened: %w", err)
	}
	return systemError{err}
}
