package lab

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

// TestQMP talks to a monitor that throws in events.
func TestQMP(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go func() {
		io.WriteString(outW, `{"QMP": {"version": {}}}`+"\n")
		for lines := bufio.NewScanner(inR); lines.Scan(); {
			answer := `{"return": {}}`
			switch line := lines.Text(); {
			case strings.Contains(line, "info usernet"):
				answer = `{"event": "RESUME", "timestamp": {}} {"return": "a table"}`
			case strings.Contains(line, "nonsense"):
				answer = `{"error": {"class": "CommandNotFound", "desc": "no such command"}}`
			case strings.Contains(line, "quit"):
				io.WriteString(outW, `{"return": {}} {"event": "SHUTDOWN"} {"event": "STOP"}`)
				outW.Close()
				inR.Close()
				return
			}
			io.WriteString(outW, answer+"\n")
		}
	}()
	q, err := newQMP(inW, outR)
	if err != nil {
		t.Fatal(err)
	}
	if table, err := q.human("info usernet"); err != nil || table != "a table" {
		t.Errorf("human = %q, %v", table, err)
	}
	if err := q.do("nonsense", nil, nil); err == nil || !strings.Contains(err.Error(), "no such command") {
		t.Errorf("a command that it does not know: %v", err)
	}
	if err := q.do("quit", nil, nil); err != nil {
		t.Error(err)
	}
	<-q.gone // the events behind the last answer are taken
	if err := q.do("stop", nil, nil); err == nil {
		t.Error("a monitor that has gone still obeys")
	}
}

func TestQMPGreeting(t *testing.T) {
	for _, said := range []string{"", "{}", "no JSON"} {
		if _, err := newQMP(io.Discard, strings.NewReader(said)); err == nil {
			t.Errorf("a monitor that begins with %q was accepted", said)
		}
	}
}
