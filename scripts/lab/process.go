package lab

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// process is a child that cannot outlive this one: the kernel kills it when
// the thread that started it ends.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has been reaped
	err  error         // how it ended; readable once done is closed
	once sync.Once
}

// startProcess starts cmd in a process group of its own.
func startProcess(cmd *exec.Cmd) (*process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.WaitDelay = 5 * time.Second
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal is bound to the thread, not to the process: keep it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// end waits until the process has ended and been reaped; after the grace time
// it is killed together with its group.
func (p *process) end(grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
	}
}

// stop asks the process to end, see end.
func (p *process) stop(sig syscall.Signal, grace time.Duration) {
	p.cmd.Process.Signal(sig) // fails only when it has ended already
	p.end(grace)
}

func (p *process) kill() {
	p.once.Do(func() {
		select {
		case <-p.done:
			return
		default:
		}
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	})
	<-p.done
}

// ended tells without waiting whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
