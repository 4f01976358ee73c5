package lab

import (
	"bufio"
	"context"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// AgentAddr is where the agent listens inside the virtual machine: on the
// second network card, which nothing but the control channel uses.
const AgentAddr = "10.0.3.15:7"

// A control connection carries one script. Both directions are frames:
//
//	+------+--------------+-----------------+
//	| kind | length (u32) | length octets   |
//	+------+--------------+-----------------+
//
// The requester sends frameRun (JSON of runRequest), then frameStdin until
// an empty one. The agent answers with frameStdout and frameStderr as they
// come, and one frameExit (JSON of runResult) as the last. A requester that
// closes the connection early has its script killed; otherwise it closes once
// it has the last frame, and the agent reads until then, because closing on
// unread input would reset the connection and could take that frame along.
const (
	frameRun byte = iota + 1
	frameStdin
	frameStdout
	frameStderr
	frameExit
)

// maxFrame bounds what either end accepts in one frame, in octets.
const maxFrame = 64 << 10

// lingerTime is how long the agent waits for a requester to take the last
// frame and close.
const lingerTime = 30 * time.Second

type runRequest struct {
	Token  string
	Script string
}

type runResult struct {
	Status int    // exit status; 128+n where signal n ended it
	Error  string // why the script could not be run at all
}

func writeFrame(w io.Writer, kind byte, data []byte) error {
	buf := make([]byte, 0, 5+len(data))
	buf = append(buf, kind)
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(data)))
	_, err := w.Write(append(buf, data...))
	return err
}

func readFrame(r io.Reader) (kind byte, data []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("control frame of %d octets", n)
	}
	data = make([]byte, n)
	if _, err = io.ReadFull(r, data); errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return head[0], data, err
}

// frameWriter sends what is written to it as frames of one kind. Several may
// share a connection and its mutex.
type frameWriter struct {
	mu   *sync.Mutex
	w    io.Writer
	kind byte
}

func (f frameWriter) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		n := min(len(p)-done, maxFrame)
		f.mu.Lock()
		err := writeFrame(f.w, f.kind, p[done:done+n])
		f.mu.Unlock()
		if err != nil {
			return done, err
		}
		done += n
	}
	return len(p), nil
}

// ServeAgent runs the scripts that arrive on l, each connection's on its own,
// until l fails. Requests without the token are refused.
func ServeAgent(l net.Listener, token string) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go serveScript(conn, token)
	}
}

func serveScript(conn net.Conn, token string) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	kind, data, err := readFrame(r)
	if err != nil || kind != frameRun {
		return
	}
	var mu sync.Mutex
	answer := func(res runResult) {
		data, _ := json.Marshal(res)
		frameWriter{&mu, conn, frameExit}.Write(data)
	}
	var req runRequest
	if err := json.Unmarshal(data, &req); err != nil {
		answer(runResult{Error: err.Error()})
		return
	}
	if subtle.ConstantTimeCompare([]byte(req.Token), []byte(token)) != 1 {
		answer(runResult{Error: "wrong token"})
		return
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", req.Script)
	cmd.Stdout = frameWriter{&mu, conn, frameStdout}
	cmd.Stderr = frameWriter{&mu, conn, frameStderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// A daemon that the script leaves behind may keep its output open.
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		answer(runResult{Error: err.Error()})
		return
	}
	gone := make(chan struct{}) // closed when the requester has gone, or talks nonsense
	defer func() { <-gone }()
	go func() {
		defer close(gone)
		defer cancel()
		for {
			kind, data, err := readFrame(r)
			if err != nil || kind != frameStdin {
				return
			}
			if len(data) == 0 {
				stdin.Close()
			} else {
				stdin.Write(data) // a script need not read it
			}
		}
	}()
	err = cmd.Wait()
	conn.SetReadDeadline(time.Now().Add(lingerTime))
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		answer(runResult{})
	case errors.As(err, &exit):
		status := exit.ExitCode()
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			status = 128 + int(ws.Signal())
		}
		answer(runResult{Status: status})
	default:
		answer(runResult{Error: err.Error()})
	}
}
