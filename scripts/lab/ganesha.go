package lab

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// GaneshaOptions say how an NFS-Ganesha server is to be.
type GaneshaOptions struct {
	// Lease and Grace of the server, full seconds; 0 is 20 s and 5 s.
	Lease, Grace time.Duration
	// Dir is where the server's files go, in a directory that Close removes:
	// a file system whose files have handles (ext4, xfs; not overlayfs).
	// Empty is $TMPDIR, else /var/tmp.
	Dir string
}

// Ganesha is a running NFS-Ganesha, a server in user space: NFSv4.1 and 4.2
// over TCP on loopback. It exports a directory of this machine as "/", and
// another one as "/tmp". It needs root, and no portmapper.
type Ganesha struct {
	opts GaneshaOptions
	dir  *tempDir
	addr string

	mu     sync.Mutex // orders Stop, Start and Close
	daemon *process
}

// StartGanesha starts a server and returns when it serves and is out of its
// grace period. Ending ctx afterwards has no effect.
func StartGanesha(ctx context.Context, o GaneshaOptions) (_ *Ganesha, err error) {
	if o.Lease == 0 {
		o.Lease = 20 * time.Second
	}
	if o.Grace == 0 {
		o.Grace = 5 * time.Second
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("ganesha.nfsd needs root: it opens files by handle")
	}
	dir, err := newTempDir(o.Dir, "ganesha")
	if err != nil {
		return nil, err
	}
	g := &Ganesha{opts: o, dir: dir}
	defer func() {
		if err != nil {
			g.Close()
		}
	}()
	if err := g.makeDirs(); err != nil {
		return nil, err
	}
	// Ganesha cannot tell which port it got for 0. One that was free a moment
	// ago may be taken now, though hardly ever: then another one is tried.
	for range 5 {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		g.addr = l.Addr().String()
		if err := l.Close(); err != nil {
			return nil, err
		}
		if err = g.Start(ctx); !errors.Is(err, errPortTaken) {
			return g, err
		}
	}
	return nil, errPortTaken
}

func (g *Ganesha) makeDirs() error {
	for _, sub := range []string{"recovery", "export", "export/tmp", "tmp"} {
		if err := os.Mkdir(g.dir.file(sub), 0o755); err != nil {
			return err
		}
	}
	for _, sub := range []string{"export", "tmp"} {
		if err := os.Chmod(g.dir.file(sub), 0o777|os.ModeSticky); err != nil {
			return err
		}
	}
	return nil
}

var errPortTaken = errors.New("ganesha.nfsd: its port is taken")

// TCPAddr is the host:port of the server. It stays over a restart.
func (g *Ganesha) TCPAddr() string { return g.addr }

// Export is the directory that clients see as "/".
func (g *Ganesha) Export() string { return g.dir.file("export") }

// Log is the path of the server's log, which goes with Close.
func (g *Ganesha) Log() string { return g.dir.file("log") }

func (g *Ganesha) config() string {
	_, port, _ := net.SplitHostPort(g.addr)
	export := func(id int, path, pseudo string) string {
		return fmt.Sprintf(`EXPORT {
	Export_Id = %[1]d; Path = "%[2]s"; Pseudo = "%[3]s";
	Filesystem_Id = %[1]d.%[1]d; Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Protocols = 4; Transports = TCP;
	FSAL { Name = VFS; }
}
`, id, g.dir.file(path), pseudo)
	}
	return fmt.Sprintf(`NFS_CORE_PARAM {
	NFS_Port = %s; Bind_addr = 127.0.0.1; Protocols = 4;
	Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; Allow_Set_Io_Flusher_Fail = true;
}
NFS_KRB5 { Active_krb5 = false; }
NFSV4 {
	Minor_Versions = 1, 2; RecoveryBackend = fs; RecoveryRoot = "%s";
	Delegations = true; Only_Numeric_Owners = true;
	Lease_Lifetime = %d; Grace_Period = %d;
}
LOG { Default_Log_Level = EVENT; }
`, port, g.dir.file("recovery"), int(g.opts.Lease/time.Second), int(g.opts.Grace/time.Second)) +
		export(1, "export", "/") + export(2, "tmp", "/tmp")
}

// Start starts a server that Stop has stopped, and returns when it serves.
// Clients that were there before have the grace period to reclaim their
// state, and Start waits for its end.
func (g *Ganesha) Start(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.daemon != nil && !g.daemon.ended() {
		return nil
	}
	conf := g.dir.file("ganesha.conf")
	if err := os.WriteFile(conf, []byte(g.config()), 0o600); err != nil {
		return err
	}
	log, err := os.OpenFile(g.Log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	cmd := exec.Command(lookPath("ganesha.nfsd"), "-F", "-f", conf, "-L", "STDERR", "-p", g.dir.file("pid"))
	cmd.Stderr = io.MultiWriter(log, w)
	cmd.Dir = g.dir.path
	daemon, err := startProcess(cmd)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	g.daemon = daemon
	go func() {
		<-daemon.done
		w.Close()
		log.Close()
	}()

	ready, bad := make(chan struct{}), make(chan error, 1)
	go watchGanesha(r, ready, bad)
	select {
	case <-ready:
		return nil
	case err = <-bad:
	case <-ctx.Done():
		err = fmt.Errorf("starting ganesha.nfsd: %w", context.Cause(ctx))
	}
	daemon.kill()
	return err
}

// watchGanesha reads the log to its end. It closes ready when the server has
// both opened its sockets and left its grace period; or it puts into bad why
// there will be no server.
func watchGanesha(log io.Reader, ready chan<- struct{}, bad chan<- error) {
	var serving, grace, told bool
	var last, fatal string
	fail := func(err error) {
		if !told {
			told = true
			bad <- err
		}
	}
	for lines := bufio.NewScanner(log); lines.Scan(); {
		line := lines.Text()
		if _, rest, ok := strings.Cut(line, "] "); ok { // after date, host and thread
			line = rest
		}
		switch {
		case strings.Contains(line, "NFS SERVER INITIALIZED"):
			serving = true
		case strings.Contains(line, "Now IN GRACE"):
			grace = true
		case strings.Contains(line, "Now NOT IN GRACE"):
			grace = false
		case strings.Contains(line, "Cannot bind"):
			fail(errPortTaken)
		case strings.Contains(line, "Could not create export"): // it would go on without
			fail(fmt.Errorf("ganesha.nfsd: %s: %s", line, last))
		case strings.Contains(line, ":FATAL :"):
			fatal = line
		case strings.Contains(line, ":CRIT :") && fatal == "":
			last = line
		}
		if serving && !grace && !told {
			told = true
			close(ready)
		}
	}
	io.Copy(io.Discard, log) // after a line too long for the scanner
	fail(fmt.Errorf("ganesha.nfsd ended while it started: %s", cmp.Or(fatal, last)))
}

// Stop ends the server; its files stay for Start.
func (g *Ganesha) Stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.daemon != nil {
		g.daemon.stop(syscall.SIGTERM, 15*time.Second)
	}
}

// Close ends the server and removes its files.
func (g *Ganesha) Close() error {
	g.Stop()
	return g.dir.remove()
}
