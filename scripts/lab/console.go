package lab

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"
)

// console keeps what a machine prints, and watches for the two lines by which
// its init tells how booting went.
type console struct {
	ready chan error // gets one value
	done  chan struct{}
	file  *os.File
}

func newConsole(path string, r io.Reader) (*console, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	c := &console{ready: make(chan error, 1), done: make(chan struct{}), file: f}
	go c.copy(r)
	return c, nil
}

func (c *console) copy(r io.Reader) {
	defer close(c.done)
	defer c.file.Close()
	told := false
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		c.file.WriteString(line)
		line = strings.TrimSpace(line)
		if why, failed := strings.CutPrefix(line, "LAB-FAILED "); failed && !told {
			told = true
			c.ready <- errors.New("the machine could not start: " + why)
		} else if line == "LAB-READY" && !told {
			told = true
			c.ready <- nil
		}
		if err != nil {
			return
		}
	}
}

// wait returns when the machine has closed its console.
func (c *console) wait() { <-c.done }

// last returns the console's last lines.
func (c *console) last() string {
	data, _ := os.ReadFile(c.file.Name())
	return string(data[max(0, len(data)-4096):])
}
