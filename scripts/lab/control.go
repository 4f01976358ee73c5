package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
)

// Control is the way to run scripts on a machine that has an agent. It may be
// used by several goroutines at once; scripts then run side by side.
type Control struct {
	Addr  string // host:port that leads to the agent
	Token string // what the agent asks for
}

// ScriptError says that a script ended with a status other than 0.
type ScriptError struct {
	Script string
	Status int    // exit status, 128+n where signal n ended it
	Stderr string // its last few kilobytes
}

func (e *ScriptError) Error() string {
	first, _, more := strings.Cut(strings.TrimSpace(e.Script), "\n")
	if more {
		first += " …"
	}
	return fmt.Sprintf("script %q: exit status %d: %s", first, e.Status, strings.TrimSpace(e.Stderr))
}

// Script is something to run with /bin/sh as root, in a process group of its
// own. The zero value of each stream is /dev/null.
type Script struct {
	Text           string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Exec runs a script and returns what it wrote to its standard output. The
// error is a *ScriptError where the script ran and failed. Ending ctx kills it.
func (c Control) Exec(ctx context.Context, script string) (stdout string, err error) {
	var out strings.Builder
	err = c.Run(ctx, Script{Text: script, Stdout: &out})
	return out.String(), err
}

// Put copies a file to the machine.
func (c Control) Put(ctx context.Context, local, remote string, mode os.FileMode) error {
	f, err := os.Open(local)
	if err != nil {
		return err
	}
	defer f.Close()
	text := fmt.Sprintf("cat >%[1]s.part && chmod %[2]o %[1]s.part && mv %[1]s.part %[1]s", quote(remote), mode.Perm())
	return c.Run(ctx, Script{Text: text, Stdin: f})
}

// quote makes one word of s for the shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// tail keeps the last octets written to it.
type tail struct {
	bytes.Buffer
	max int
}

func (t *tail) Write(p []byte) (int, error) {
	t.Buffer.Write(p)
	if extra := t.Len() - t.max; extra > 0 {
		t.Next(extra)
	}
	return len(p), nil
}

// Run runs a script, see Exec.
func (c Control) Run(ctx context.Context, s Script) error {
	err := c.run(ctx, s)
	if ctx.Err() != nil && err != nil {
		return context.Cause(ctx)
	}
	return err
}

func (c Control) run(ctx context.Context, s Script) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	var mu sync.Mutex
	req, err := json.Marshal(runRequest{Token: c.Token, Script: s.Text})
	if err != nil {
		return err
	}
	if len(req) > maxFrame {
		return fmt.Errorf("script of %d octets: longer than %d", len(s.Text), maxFrame)
	}
	if _, err := (frameWriter{&mu, conn, frameRun}).Write(req); err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		w := frameWriter{&mu, conn, frameStdin}
		var err error
		if s.Stdin != nil {
			_, err = io.Copy(w, s.Stdin)
		}
		if err == nil {
			err = writeFrame(conn, frameStdin, nil)
		}
		sent <- err
		if err != nil {
			conn.Close() // the script must not take half its input for all
		}
	}()

	stderr := &tail{max: 8 << 10}
	for r := bufio.NewReader(conn); ; {
		kind, data, err := readFrame(r)
		if err != nil {
			select {
			case inputErr := <-sent:
				err = errors.Join(inputErr, err)
			default:
			}
			return fmt.Errorf("control channel: %w", err)
		}
		switch kind {
		case frameStdout:
			if s.Stdout != nil {
				_, err = s.Stdout.Write(data)
			}
		case frameStderr:
			stderr.Write(data)
			if s.Stderr != nil {
				_, err = s.Stderr.Write(data)
			}
		case frameExit:
			var res runResult
			if err := json.Unmarshal(data, &res); err != nil {
				return fmt.Errorf("control channel: %w", err)
			}
			if res.Error != "" {
				return errors.New(res.Error)
			}
			if res.Status != 0 {
				return &ScriptError{Script: s.Text, Status: res.Status, Stderr: stderr.String()}
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}
