// Command up keeps the lab's virtual machine running for somebody who wants
// to try things against a real server; scripts/lab/up says how to use it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"nfsrdma-fuse/scripts/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	var script *lab.ScriptError
	if errors.As(err, &script) {
		os.Exit(script.Status) // it has said why on stderr
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "up:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return command(ctx, args)
	}
	var o lab.Options
	flags := flag.NewFlagSet("up", flag.ExitOnError)
	flags.IntVar(&o.Memory, "memory", 0, "`MiB` of memory (4096)")
	flags.IntVar(&o.Processors, "processors", 0, "number of processors (2)")
	flags.IntVar(&o.MaxBlock, "max-block", 0, "largest READ and WRITE in octets (the server's choice)")
	flags.DurationVar(&o.Lease, "lease", 0, "lease time (15s)")
	flags.DurationVar(&o.Grace, "grace", 0, "grace period (10s)")
	flags.StringVar(&o.Accel, "accel", "", "tcg or kvm (tcg)")
	flags.Parse(args)

	vm, err := lab.Start(ctx, o)
	if err != nil {
		return err
	}
	defer vm.Close()
	control := vm.Addr + "/" + vm.Token
	self := filepath.Join("scripts", "lab", "up")
	fmt.Printf("NFS over RDMA (iWARP)  %s\nNFS over TCP           %s\nconsole                %s\nscripts                %s exec %s 'SCRIPT'\nready; Ctrl-C ends it\n",
		vm.RDMAAddr(), vm.TCPAddr(), vm.Console(), self, control)
	select {
	case <-ctx.Done():
		return vm.Close()
	case <-vm.Done():
		return errors.New("the machine has gone")
	}
}

// command runs "exec CONTROL SCRIPT" and "put CONTROL FILE PATH".
func command(ctx context.Context, args []string) error {
	if len(args) < 3 {
		return errors.New("usage: up [FLAGS] | exec CONTROL SCRIPT | put CONTROL FILE PATH-IN-MACHINE")
	}
	addr, token, ok := strings.Cut(args[1], "/")
	if !ok {
		return errors.New("CONTROL is what up has printed: ADDRESS/TOKEN")
	}
	control := lab.Control{Addr: addr, Token: token}
	switch {
	case args[0] == "exec" && len(args) == 3:
		s := lab.Script{Text: args[2], Stdout: os.Stdout, Stderr: os.Stderr}
		if info, err := os.Stdin.Stat(); err == nil && info.Mode()&os.ModeCharDevice == 0 {
			s.Stdin = os.Stdin
		}
		return control.Run(ctx, s)
	case args[0] == "put" && len(args) == 4:
		info, err := os.Stat(args[2])
		if err != nil {
			return err
		}
		return control.Put(ctx, args[2], args[3], info.Mode())
	}
	return fmt.Errorf("unknown command %q", args)
}
