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
	mu  sync.Mutex // one command at a time
	in  io.WriteCloser
	out *json.Decoder
}

// newQMP takes the monitor's two streams and does its greeting.
func newQMP(in io.WriteCloser, out io.Reader) (*qmp, error) {
	q := &qmp{in: in, out: json.NewDecoder(out)}
	var greeting struct{ QMP json.RawMessage }
	if err := q.out.Decode(&greeting); err != nil {
		return nil, fmt.Errorf("qemu: %w", err)
	}
	if greeting.QMP == nil {
		return nil, errors.New("qemu: no greeting from its monitor")
	}
	return q, q.do("qmp_capabilities", nil, nil)
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
	for {
		var msg struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
			Event  string
		}
		if err := q.out.Decode(&msg); err != nil {
			return fmt.Errorf("qemu %s: %w", command, err)
		}
		switch {
		case msg.Event != "":
		case msg.Error != nil:
			return fmt.Errorf("qemu %s: %s", command, msg.Error.Desc)
		case result != nil:
			return json.Unmarshal(msg.Return, result)
		default:
			return nil
		}
	}
}

// human runs a command of the monitor that is made for people.
func (q *qmp) human(line string) (string, error) {
	var out string
	err := q.do("human-monitor-command", map[string]string{"command-line": line}, &out)
	return out, err
}
