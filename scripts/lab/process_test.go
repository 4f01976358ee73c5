package lab

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestProcess(t *testing.T) {
	if p, err := startProcess(exec.Command("/does/not/exist")); err == nil || p != nil {
		t.Errorf("a program that does not exist: %v, %v", p, err)
	}
	for name, end := range map[string]func(*process){
		"obeys":       func(p *process) { p.stop(syscall.SIGTERM, time.Minute) },
		"is killed":   func(p *process) { p.stop(0, 0) },
		"kill twice":  func(p *process) { p.kill(); p.kill() },
		"end, killed": func(p *process) { p.stop(syscall.SIGTERM, time.Minute); p.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			p, err := startProcess(exec.Command("sleep", "600"))
			if err != nil {
				t.Fatal(err)
			}
			if p.ended() {
				t.Error("it has ended at once")
			}
			end(p)
			if !p.ended() || p.err == nil {
				t.Errorf("ended = %v, with %v", p.ended(), p.err)
			}
			if err := syscall.Kill(p.cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d is still there", p.cmd.Process.Pid)
			}
		})
	}
}
