package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// qmp talks to the machine monitor of a running qemu.
type qmp struct {
	mu      sync.Mutex // one command at a time
	in      io.Writer
	replies chan qmpMessage // at most one is due; closed at the end of the stream
	gone    chan struct{}   // closed when the reader has stopped
	err     error           // why it has; readable once gone is closed
}

// qmpMessage is anything that the monitor says.
type qmpMessage struct {
	QMP    json.RawMessage // the greeting
	Return json.RawMessage
	Error  *struct{ Desc string }
	Event  string
}

// newQMP takes the monitor's two streams and does its greeting. It reads out
// until that ends, because events come unasked.
func newQMP(in io.Writer, out io.Reader) (*qmp, error) {
	q := &qmp{in: in, replies: make(chan qmpMessage, 1), gone: make(chan struct{})}
	go q.read(out)
	greeting, ok := <-q.replies
	if !ok {
		return nil, fmt.Errorf("qemu: %w", q.err)
	}
	if greeting.QMP == nil {
		return nil, errors.New("qemu: no greeting from its monitor")
	}
	return q, q.do("qmp_capabilities", nil, nil)
}

// read passes on all that is not an event.
func (q *qmp) read(out io.Reader) {
	defer close(q.gone)
	defer close(q.replies)
	for dec := json.NewDecoder(out); ; {
		var msg qmpMessage
		if q.err = dec.Decode(&msg); q.err != nil {
			return
		}
		if msg.Event == "" {
			q.replies <- msg
		}
	}
}

// do runs a command and decodes what it returns into result unless that is nil.
func (q *qmp) do(command string, args, result any) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	req := map[string]any{"execute": command}
	if args != nil {
		req["arguments"] = args
	}
	if err := json.NewEncoder(q.in).Encode(req); err != nil {
		return fmt.Errorf("qemu %s: %w", command, err)
	}
	msg, ok := <-q.replies
	switch {
	case !ok:
		return fmt.Errorf("qemu %s: %w", command, q.err)
	case msg.Error != nil:
		return fmt.Errorf("qemu %s: %s", command, msg.Error.Desc)
	case result != nil:
		return json.Unmarshal(msg.Return, result)
	}
	return nil
}

// human runs a command of the monitor that is made for people.
func (q *qmp) human(line string) (string, error) {
	var out string
	err := q.do("human-monitor-command", map[string]string{"command-line": line}, &out)
	return out, err
}
