package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
)

// Decoding is what tshark makes of a capture, after align.
//
// It is asked twice. First without its NFS dissector, for the transport: there
// every frame has to be in order. Then with it, for NFS: there, tshark takes a
// message that was reduced (RFC 8166 section 3.4.2) for a damaged one even
// when it comes from the Linux kernel, because it does not put the chunk's
// data back where it belongs. So what it says about NFS counts only in frames
// whose messages have no chunks.
type Decoding struct {
	Frames   int            // packets, after align
	FPDUs    int            // MPA frames, negotiation not counted
	Segments map[string]int // DDP segments by RDMAP opcode: "Send", "Write", ...
	Messages map[string]int // RPC-over-RDMA messages by type: "MSG", "NOMSG", ...
	Calls    int            // RPC calls, on RDMA and on TCP
	Replies  int            // RPC replies
	NFS      int            // frames with NFS in them

	// Undecoded is how many octets of the TCP streams are in nothing that was
	// recognised: 0 when every octet of every iWARP stream is part of an MPA
	// frame. Streams that are not iWARP do not count.
	Undecoded int64
	// Truncated says that the file reached its greatest length.
	Truncated bool
	// Dropped is how many packets were lost before they reached the file.
	Dropped int
	// Problems are the frames that tshark finds fault with.
	Problems []Problem
}

// Problem is something wrong with a frame.
type Problem struct {
	Frame int // number in the file, from 1
	Text  string
}

// Ok returns an error unless the capture is complete, every octet of its iWARP
// streams is decoded, and no frame is at fault.
func (d *Decoding) Ok() error {
	var errs []error
	if d.Dropped > 0 {
		errs = append(errs, fmt.Errorf("%d packets were lost while capturing: the rest tells nothing", d.Dropped))
	}
	// The last MPA frame of each direction may be cut.
	if d.Undecoded != 0 && !d.Truncated {
		errs = append(errs, fmt.Errorf("%d octets do not belong to any MPA frame", d.Undecoded))
	}
	for i, p := range d.Problems {
		if i == 10 {
			errs = append(errs, fmt.Errorf("and %d frames more", len(d.Problems)-i))
			break
		}
		errs = append(errs, fmt.Errorf("frame %d: %s", p.Frame, p.Text))
	}
	return errors.Join(errs...)
}

// String is a summary of one line.
func (d *Decoding) String() string {
	return fmt.Sprintf("%d frames, %d FPDUs, segments %v, messages %v, %d calls, %d replies, %d with NFS, %d octets undecoded, %d problems",
		d.Frames, d.FPDUs, d.Segments, d.Messages, d.Calls, d.Replies, d.NFS, d.Undecoded, len(d.Problems))
}

// transportFields are what the first pass asks of each frame.
var transportFields = []string{
	"frame.number", "tcp.stream", "tcp.srcport", "tcp.seq", "tcp.len",
	"iwarp_mpa.pdlength", "iwarp_mpa.ulpdulength", "iwarp_mpa.crc_check", "iwarp_mpa.bad_length",
	"iwarp_rdma.opcode", "iwarp_rdma.send.fragment.error", "ddp.len_invalid",
	"rpcordma.msg_type", "rpc.msgtyp", "_ws.expert.severity", "_ws.expert.message", "_ws.malformed",
}

// nfsFields are what the second pass asks.
var nfsFields = []string{
	"frame.number", "frame.protocols", "iwarp_rdma.opcode", "rpcordma.reads_count", "rpcordma.writes_count", "rpcordma.reply_count", "_ws.malformed",
}

// severityError is tshark's number for an expert information of level Error.
const severityError = 0x800000

var rdmapNames = []string{"Write", "Read Request", "Read Response", "Send", "Send with Invalidate", "Send with SE", "Send with SE and Invalidate", "Terminate"}

var messageNames = []string{"MSG", "NOMSG", "MSGP", "DONE", "ERROR"}

// Decode has tshark decode a file.
func Decode(ctx context.Context, path string) (*Decoding, error) {
	dir, err := newTempDir("", "decode")
	if err != nil {
		return nil, err
	}
	defer dir.remove()
	aligned := dir.file("aligned.pcapng")
	origin, err := align(path, aligned)
	if err != nil {
		return nil, err
	}
	d, err := decodeAligned(ctx, aligned)
	if err != nil {
		return nil, err
	}
	if d.Frames != len(origin) {
		return nil, fmt.Errorf("tshark sees %d frames of %d", d.Frames, len(origin))
	}
	for i, p := range d.Problems {
		d.Problems[i].Frame = origin[p.Frame-1]
	}
	return d, nil
}

func decodeAligned(ctx context.Context, path string) (*Decoding, error) {
	d := &Decoding{Segments: map[string]int{}, Messages: map[string]int{}}
	t := transportPass{d: d, streams: map[string]*stream{}}
	if err := tshark(ctx, path, []string{"--disable-protocol", "nfs"}, transportFields, t.frame); err != nil {
		return nil, err
	}
	t.finish()
	if t.crc {
		if err := d.checkCRC(ctx, path); err != nil {
			return nil, err
		}
	}
	if err := tshark(ctx, path, []string{"-Y", "nfs"}, nfsFields, d.nfsFrame); err != nil {
		return nil, err
	}
	return d, nil
}

// frame gives access to the fields of one frame by name.
type frame map[string]string

func (f frame) all(field string) []string {
	if f[field] == "" {
		return nil
	}
	return strings.Split(f[field], valueSeparator)
}

func (f frame) ints(field string) (ns []int64, err error) {
	for _, v := range f.all(field) {
		n, err := strconv.ParseInt(v, 0, 64)
		if err != nil {
			return nil, fmt.Errorf("tshark: field %s is %q", field, v)
		}
		ns = append(ns, n)
	}
	return ns, nil
}

const (
	fieldSeparator = "\x1f"
	valueSeparator = "\x1e"
)

// tshark prints the given fields of every frame and calls each with them.
func tshark(ctx context.Context, path string, options, fields []string, each func(frame) error) error {
	args := append([]string{
		"-T", "fields", "-E", "separator=" + fieldSeparator, "-E", "aggregator=" + valueSeparator, "-E", "occurrence=a",
	}, options...)
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	return runTshark(ctx, path, args, func(r io.Reader) error { return readFrames(r, fields, each) })
}

// checkCRC finds the MPA frames with a wrong checksum. tshark tells them from
// others only in the text that it prints for people.
func (d *Decoding) checkCRC(ctx context.Context, path string) error {
	args := []string{"--disable-protocol", "nfs", "-Y", "iwarp_mpa", "-V", "-O", "iwarp_mpa"}
	return runTshark(ctx, path, args, func(r io.Reader) error {
		number := 0
		for lines := bufio.NewReader(r); ; {
			line, err := lines.ReadString('\n')
			if rest, ok := strings.CutPrefix(line, "Frame "); ok {
				digits, _, _ := strings.Cut(rest, ":")
				number, _ = strconv.Atoi(digits)
			}
			if strings.Contains(line, "CRC check: ") && !strings.Contains(line, "(Good CRC32)") {
				d.Problems = append(d.Problems, Problem{number, "MPA " + strings.TrimSpace(line)})
			}
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
}

// runTshark runs tshark on a file and has read take its output.
func runTshark(ctx context.Context, path string, args []string, read func(io.Reader) error) error {
	args = append([]string{
		"-r", path, "-n",
		// Ports are chosen at random and may be known for another protocol.
		"-o", "tcp.try_heuristic_first:TRUE",
		// Loopback is captured on all processors at once.
		"-o", "tcp.reassemble_out_of_order:TRUE",
	}, args...)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, lookPath("tshark"), args...)
	stderr := &tail{max: 4 << 10}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := read(out)
	if readErr != nil {
		cancel()
	}
	err = cmd.Wait()
	if readErr != nil {
		return readErr
	}
	if err != nil {
		return fmt.Errorf("tshark: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

func readFrames(r io.Reader, fields []string, each func(frame) error) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF && line == "" {
			return nil
		}
		if err != nil {
			return err
		}
		values := strings.Split(strings.TrimSuffix(line, "\n"), fieldSeparator)
		if len(values) != len(fields) {
			return fmt.Errorf("tshark: %d fields in %q", len(values), line)
		}
		f := frame{}
		for i, field := range fields {
			f[field] = values[i]
		}
		if err := each(f); err != nil {
			return err
		}
	}
}

// stream is one direction of a TCP connection.
type stream struct {
	iwarp         bool
	sent, decoded int64 // octets
}

// segment notes a segment of n octets at the sequence number seq, the stream's
// first being 1. The highest number tells how many there are; adding up the
// lengths would count retransmissions, which occur on a busy loopback too.
func (s *stream) segment(seq, n int64) {
	const wrap = 1 << 32
	end := seq - 1 + n
	end += (s.sent - end + wrap/2) / wrap * wrap // the one nearest to where the stream is
	s.sent = max(s.sent, end)
}

type transportPass struct {
	d       *Decoding
	streams map[string]*stream
	crc     bool // there are checksums
}

func (t *transportPass) frame(f frame) error {
	d := t.d
	d.Frames++
	number, err := strconv.Atoi(f["frame.number"])
	if err != nil {
		return fmt.Errorf("tshark: frame %q", f["frame.number"])
	}
	var errs []error
	ints := func(field string) []int64 {
		ns, err := f.ints(field)
		errs = append(errs, err)
		return ns
	}

	key := f["tcp.stream"] + " " + f["tcp.srcport"]
	s := t.streams[key]
	if s == nil {
		s = &stream{}
		t.streams[key] = s
	}
	seqs := ints("tcp.seq")
	for i, n := range ints("tcp.len") {
		if n > 0 && i < len(seqs) { // an end of stream counts as a sequence number without being an octet
			s.segment(seqs[i], n)
		}
	}
	for _, n := range ints("iwarp_mpa.pdlength") { // request or reply
		s.iwarp = true
		s.decoded += 20 + n
	}
	for _, n := range ints("iwarp_mpa.ulpdulength") { // length, ULPDU, padding, CRC
		d.FPDUs++
		s.decoded += (2+n+3)/4*4 + 4
	}
	count := func(field string, names []string, counts map[string]int) {
		for _, n := range ints(field) {
			name := fmt.Sprintf("type %d", n)
			if n < int64(len(names)) {
				name = names[n]
			}
			counts[name]++
		}
	}
	count("iwarp_rdma.opcode", rdmapNames, d.Segments)
	count("rpcordma.msg_type", messageNames, d.Messages)
	for _, n := range ints("rpc.msgtyp") {
		if n == 0 {
			d.Calls++
		} else {
			d.Replies++
		}
	}

	problem := func(text string) { d.Problems = append(d.Problems, Problem{number, text}) }
	messages := f.all("_ws.expert.message")
	for i, severity := range ints("_ws.expert.severity") {
		if severity < severityError {
			continue
		}
		if i < len(messages) {
			problem(messages[i])
		} else {
			problem("expert error")
		}
	}
	t.crc = t.crc || f["iwarp_mpa.crc_check"] != ""
	for _, field := range []string{"_ws.malformed", "iwarp_mpa.bad_length", "iwarp_rdma.send.fragment.error", "ddp.len_invalid"} {
		if v := f.all(field); len(v) > 0 {
			problem(field + ": " + v[0])
		}
	}
	return errors.Join(errs...)
}

func (t *transportPass) finish() {
	iwarp := map[string]bool{} // by connection
	for key, s := range t.streams {
		id, _, _ := strings.Cut(key, " ")
		iwarp[id] = iwarp[id] || s.iwarp
	}
	for key, s := range t.streams {
		if id, _, _ := strings.Cut(key, " "); iwarp[id] {
			t.d.Undecoded += max(s.sent-s.decoded, s.decoded-s.sent)
		}
	}
}

func (d *Decoding) nfsFrame(f frame) error {
	d.NFS++
	bad := f.all("_ws.malformed")
	if len(bad) == 0 {
		return nil
	}
	number, err := strconv.Atoi(f["frame.number"])
	if err != nil {
		return fmt.Errorf("tshark: frame %q", f["frame.number"])
	}
	if f["iwarp_rdma.opcode"] != "" {
		var chunks int64
		headers := 0
		for _, field := range []string{"rpcordma.reads_count", "rpcordma.writes_count", "rpcordma.reply_count"} {
			ns, err := f.ints(field)
			if err != nil {
				return err
			}
			headers += len(ns)
			for _, n := range ns {
				chunks += n
			}
		}
		if headers == 0 || chunks > 0 {
			return nil // a chunk's data, or a message that was reduced
		}
	}
	d.Problems = append(d.Problems, Problem{number, "NFS: " + bad[0]})
	return nil
}
