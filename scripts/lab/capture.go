package lab

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// CaptureOptions say what to capture.
type CaptureOptions struct {
	// Addrs are the host:port of the servers whose TCP traffic on loopback is
	// to be kept, in both directions. Their hosts are not looked at.
	Addrs []string
	// MaxBytes is how long the file may get; what comes later is dropped,
	// and the file is marked as Truncated. 0 is 256 MiB.
	MaxBytes int64
	// Dir is where the file goes, in a directory that Close removes; empty is
	// $TMPDIR, else /var/tmp.
	Dir string
}

// Capture records traffic on loopback with dumpcap.
//
// Its flow: dumpcap writes pcapng blocks to a pipe, copy takes them from there
// into the file. To know that recording has begun, and at the end that
// everything sent before has arrived, the Capture sends itself a datagram with
// random content and waits for it to come by.
type Capture struct {
	dir     *tempDir
	path    string
	dumpcap *process
	stderr  *tail
	marker  *marker
	copied  chan error // gets the result of copy

	once    sync.Once
	stopErr error
	info    captureInfo
}

// captureInfo is what is known about a file apart from its content.
type captureInfo struct {
	truncated bool
	dropped   int // packets that dumpcap or the kernel lost
}

// StartCapture returns when everything that is sent from now on is recorded.
// The TCP connections to be decoded have to be opened after that.
func StartCapture(ctx context.Context, o CaptureOptions) (_ *Capture, err error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = 256 << 20
	}
	var filter []string
	for _, addr := range o.Addrs {
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		filter = append(filter, "tcp port "+port)
	}
	if len(filter) == 0 {
		return nil, errors.New("nothing to capture")
	}
	dir, err := newTempDir(o.Dir, "capture")
	if err != nil {
		return nil, err
	}
	c := &Capture{dir: dir, path: dir.file("capture.pcapng"), stderr: &tail{max: 4 << 10}, copied: make(chan error, 1)}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if c.marker, err = newMarker(); err != nil {
		return nil, err
	}
	filter = append(filter, "udp port "+c.marker.port())

	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	// Whole packets, and room for a second or so of a busy loopback.
	cmd := exec.Command(lookPath("dumpcap"), "-q", "-i", "lo", "-s", "0", "-B", "128", "-f", strings.Join(filter, " or "), "-w", "-")
	cmd.Stdout = w
	cmd.Stderr = c.stderr
	if c.dumpcap, err = startProcess(cmd); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	go func() {
		defer r.Close()
		c.copied <- c.copy(r, o.MaxBytes)
	}()
	if err := c.passMarker(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// passMarker sends the marker until it has come by.
func (c *Capture) passMarker(ctx context.Context) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		seen, err := c.marker.send()
		if err != nil {
			return err
		}
		select {
		case <-seen:
			return nil
		case <-again.C:
		case <-c.dumpcap.done:
			return fmt.Errorf("dumpcap ended: %v: %s", c.dumpcap.err, bytes.TrimSpace(c.stderr.Bytes()))
		case <-ctx.Done():
			return fmt.Errorf("capturing on loopback: %w", context.Cause(ctx))
		}
	}
}

// blockPacket is the type of the pcapng block that holds a packet.
const blockPacket = 6

// maxBlock bounds the length of a block, in octets: a packet of loopback has
// at most 64 KiB and a few headers.
const maxBlock = 1 << 20

// copy takes blocks from r into the file, except for the markers and for what
// would make the file longer than most.
func (c *Capture) copy(r io.Reader, most int64) error {
	// Whatever happens, dumpcap must not be stuck with a full pipe.
	defer io.Copy(io.Discard, r)
	f, err := os.OpenFile(c.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	written, err := c.copyBlocks(bufio.NewReaderSize(r, 1<<20), w, most)
	if err == nil && written == 0 {
		err = errors.New("dumpcap wrote nothing")
	}
	return errors.Join(err, w.Flush(), f.Close())
}

func (c *Capture) copyBlocks(r io.Reader, w io.Writer, most int64) (written int64, err error) {
	for block := []byte(nil); ; {
		if block, err = readBlock(r, block); err == io.EOF {
			return written, nil
		} else if err != nil {
			return written, err
		}
		n := len(block)
		if binary.NativeEndian.Uint32(block) == blockPacket {
			if c.marker.found(block) {
				continue
			}
			if written+int64(n) > most {
				c.info.truncated = true
			}
			if c.info.truncated {
				continue
			}
		}
		if _, err := w.Write(block); err != nil {
			return written, err
		}
		written += int64(n)
	}
}

// Path is the file, complete once Stop has returned. It goes with Close.
func (c *Capture) Path() string { return c.path }

var dropped = regexp.MustCompile(`Packets received/dropped on interface .*: \d+/(\d+)`)

// Stop ends the recording. All that was sent before is in the file, unless
// that has become too long.
func (c *Capture) Stop() error {
	c.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		err := c.passMarker(ctx)
		c.dumpcap.stop(syscall.SIGINT, 10*time.Second)
		err = errors.Join(err, <-c.copied, c.dumpcap.err)
		if m := dropped.FindSubmatch(c.stderr.Bytes()); m != nil {
			c.info.dropped, _ = strconv.Atoi(string(m[1]))
		} else {
			err = errors.Join(err, fmt.Errorf("dumpcap does not say how many packets it lost: %s", c.stderr.Bytes()))
		}
		c.stopErr = err
	})
	return c.stopErr
}

// Check stops the recording and has tshark decode it.
func (c *Capture) Check(ctx context.Context) (*Decoding, error) {
	if err := c.Stop(); err != nil {
		return nil, err
	}
	d, err := Decode(ctx, c.path)
	if err != nil {
		return nil, err
	}
	d.Truncated, d.Dropped = c.info.truncated, c.info.dropped
	return d, nil
}

// Close ends the recording and removes the file.
func (c *Capture) Close() error {
	if c.dumpcap != nil {
		c.dumpcap.kill()
	}
	if c.marker != nil {
		c.marker.close()
	}
	return c.dir.remove()
}

// marker is a datagram that tells when it comes by in the capture.
type marker struct {
	conn *net.UDPConn // to itself

	mu   sync.Mutex
	text []byte        // content of the last one sent, nil once it came by
	seen chan struct{} // closed when it does
}

func newMarker() (*marker, error) {
	free, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	return &marker{conn: free}, nil
}

func (m *marker) port() string { return strconv.Itoa(m.conn.LocalAddr().(*net.UDPAddr).Port) }

// send sends the marker, a new one if the last one has come by.
func (m *marker) send() (seen <-chan struct{}, err error) {
	m.mu.Lock()
	if m.text == nil {
		m.text, m.seen = []byte(rand.Text()), make(chan struct{})
	}
	text, seen := m.text, m.seen
	m.mu.Unlock()
	_, err = m.conn.WriteToUDP(text, m.conn.LocalAddr().(*net.UDPAddr))
	return seen, err
}

// found tells whether the block holds a marker, the current one or an older
// copy, and notes it.
func (m *marker) found(block []byte) bool {
	const headers = blockHead + etherHead + 20 + 8 // and IP, UDP
	if len(block) > headers+64 || len(block) < headers || block[blockHead+etherHead+9] != syscall.IPPROTO_UDP {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.text != nil && bytes.Contains(block[headers:], m.text) {
		close(m.seen)
		m.text = nil
	}
	return true
}

func (m *marker) close() { m.conn.Close() }
