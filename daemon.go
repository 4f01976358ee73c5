package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/sirupsen/logrus"
	logsyslog "github.com/sirupsen/logrus/hooks/syslog"
	"golang.org/x/sys/unix"

	"log/syslog"
)

// Going to the background: the command starts itself again as a session leader
// with a pipe on descriptor 3, and waits on that pipe. The new process mounts,
// reports there that it is ready or what went wrong, and lives on; the first
// one prints the report and exits. So `mount` returns when the file system can
// be used, with the exit status that belongs to what happened.

// readyEnv tells a process that descriptor readyFD takes its report.
const (
	readyEnv = "NFSRDMA_FUSE_READY"
	readyFD  = 3
)

// report is what the background process tells the one that started it.
type report struct {
	Error  string // empty: mounted
	Status int    // exit status that goes with Error
}

// background starts this program again with the same arguments, waits for its
// report and returns it as an error.
func background() error {
	r, w, err := os.Pipe()
	if err != nil {
		return systemError{err}
	}
	defer r.Close()
	self, err := os.Executable()
	if err != nil {
		return systemError{err}
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Args[0] = os.Args[0] // the name chooses what the program does
	cmd.Env = append(os.Environ(), readyEnv+"=1")
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		w.Close()
		return systemError{err}
	}
	w.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return systemError{err}
	}
	var got report
	if json.Unmarshal(b, &got) != nil { // it ended before it could report
		state := "ended"
		if err := cmd.Wait(); err != nil {
			state = err.Error()
		}
		return systemError{fmt.Errorf("the background process %s before the mount was ready", state)}
	}
	if got.Error != "" {
		cmd.Wait()
		return exitError{errors.New(got.Error), got.Status}
	}
	return nil
}

// daemon is the background process's end of the pipe; nil in a process that
// stays in the foreground.
type daemon struct{ pipe *os.File }

// newDaemon returns the pipe to the process that started this one, if it was
// started by background.
func newDaemon() *daemon {
	if os.Getenv(readyEnv) == "" {
		return nil
	}
	os.Unsetenv(readyEnv)
	unix.CloseOnExec(readyFD)
	return &daemon{pipe: os.NewFile(readyFD, "ready")}
}

// fail reports err; the caller exits.
func (d *daemon) fail(err error) {
	d.send(report{Error: err.Error(), Status: exitStatus(err)})
}

// ready reports that the mount can be used and lets go of the terminal and of
// the working directory.
func (d *daemon) ready() error {
	if err := os.Chdir("/"); err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	logToSyslog()
	for fd := range 3 {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return err
		}
	}
	d.send(report{})
	return nil
}

func (d *daemon) send(r report) {
	b, err := json.Marshal(r)
	if err == nil {
		_, err = d.pipe.Write(b)
	}
	if err != nil { // whoever waited is gone
		logrus.WithError(err).Warn("could not report to the starting process")
	}
	d.pipe.Close()
}

// logToSyslog sends the log to the system's log, where there is one: a
// process in the background has nobody reading its standard error.
func logToSyslog() {
	hook, err := logsyslog.NewSyslogHook("", "", syslog.LOG_DAEMON|syslog.LOG_INFO, "nfsrdma-fuse")
	if err == nil {
		logrus.AddHook(hook)
	}
	logrus.SetOutput(io.Discard)
}
