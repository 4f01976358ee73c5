// Nfsrdma-fuse mounts NFS exports over RDMA from user space.
//
// The program has two names. As mount.nfsrdma-fuse it is the helper that
// mount(8) calls for the type nfsrdma-fuse, and takes what mount(8) gives such
// helpers. As nfsrdma-fuse it has commands: mount, umount, status, demo, version.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

// version is set by the linker.
var version = "unknown"

func main() {
	logrus.SetFormatter(&logrus.TextFormatter{DisableTimestamp: true})
	logrus.SetOutput(os.Stderr)
	// Until something is mounted, the one line that the command fails with
	// says it all; see runMount.
	logrus.SetLevel(logrus.ErrorLevel)

	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	name := filepath.Base(os.Args[0])
	app := newApp()
	if strings.HasPrefix(name, "mount.") {
		app = newMountHelper(name)
	}
	err := app.RunContext(ctx, reorder(os.Args, app))
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	os.Exit(exitStatus(err))
}

// newMountHelper is the program under its mount.TYPE name.
func newMountHelper(name string) *cli.App {
	app := baseApp(name)
	app.Usage = "mount an NFS export over RDMA"
	app.ArgsUsage = "SERVER:/EXPORT DIRECTORY"
	app.Flags = mountFlags()
	app.Action = mountAction
	app.Description = "Mount options:\n" + optionHelp()
	return app
}

// newApp is the program under its own name.
func newApp() *cli.App {
	app := baseApp("nfsrdma-fuse")
	app.Usage = "NFS over RDMA in user space"
	app.Commands = []*cli.Command{
		{
			Name: "mount", Usage: "mount an export", ArgsUsage: "SERVER:/EXPORT DIRECTORY",
			Description: "Mount options:\n" + optionHelp(),
			Flags:       mountFlags(), Action: mountAction, OnUsageError: onUsageError,
		},
		{
			Name: "umount", Usage: "unmount, and wait until everything is written back", ArgsUsage: "DIRECTORY",
			Flags: []cli.Flag{
				&cli.BoolFlag{Name: "lazy", Aliases: []string{"l"}, Usage: "detach now, also when the mount is in use"},
				&cli.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "how long to wait for the write-back"},
			},
			Action: umountAction, OnUsageError: onUsageError,
		},
		{
			Name: "status", Usage: "show what mounts go over, and why", ArgsUsage: "[DIRECTORY ...]",
			Action: statusAction, OnUsageError: onUsageError,
		},
		{
			Name: "demo", Usage: "mount an embedded server over software RDMA and show what happens",
			Flags:  []cli.Flag{&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "log more"}},
			Action: demoAction, OnUsageError: onUsageError,
		},
		{Name: "version", Usage: "print the version", Action: versionAction, OnUsageError: onUsageError},
	}
	app.Action = func(c *cli.Context) error {
		if c.NArg() > 0 {
			return usageError{fmt.Errorf("unknown command %q: it is one of mount, umount, status, demo, version", c.Args().First())}
		}
		return cli.ShowAppHelp(c)
	}
	return app
}

func baseApp(name string) *cli.App {
	return &cli.App{
		Name: name, HelpName: name, HideVersion: true, HideHelpCommand: true,
		OnUsageError:   onUsageError,
		ExitErrHandler: func(*cli.Context, error) {}, // main prints and exits
		// mount(8) passes option lists with commas in them.
		DisableSliceFlagSeparator: true,
	}
}

func onUsageError(_ *cli.Context, err error, _ bool) error { return usageError{err} }

func mountFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "o", Usage: "mount `OPTIONS`, comma-separated"},
		&cli.BoolFlag{Name: "f", Usage: "stay in the foreground"},
		&cli.BoolFlag{Name: "v", Usage: "tell more"},
		&cli.BoolFlag{Name: "r", Usage: "mount read-only, as -o ro"},
		&cli.BoolFlag{Name: "w", Usage: "mount read-write, as -o rw"},
		// mount(8) passes these on; there is nothing for them to do here.
		&cli.BoolFlag{Name: "n", Hidden: true},
		&cli.BoolFlag{Name: "s", Hidden: true},
		&cli.StringFlag{Name: "t", Hidden: true},
	}
}

func mountAction(c *cli.Context) error {
	if c.NArg() != 2 {
		return usageError{fmt.Errorf("what to mount and where are needed: %s SERVER:/EXPORT DIRECTORY [-o OPTIONS]", c.App.HelpName)}
	}
	source, err := parseSpec(c.Args().Get(0))
	if err != nil {
		return err
	}
	lists := c.StringSlice("o")
	if c.Bool("r") {
		lists = append(lists, "ro")
	}
	if c.Bool("w") {
		lists = append(lists, "rw")
	}
	s, err := parseOptions(lists)
	if err != nil {
		return err
	}
	s.Verbose = c.Bool("v")
	if s.Verbose {
		logrus.SetLevel(logrus.InfoLevel)
	}
	dir, err := checkMountPoint(c.Args().Get(1))
	if err != nil {
		return err
	}
	if c.Bool("f") {
		return runMount(c.Context, source, dir, s, func() error { return nil })
	}
	d := newDaemon()
	if d == nil {
		return background()
	}
	mounted := false
	err = runMount(c.Context, source, dir, s, func() error {
		mounted = true
		return d.ready()
	})
	if !mounted {
		d.fail(err)
		return nil // the starting process prints it
	}
	return err
}

func umountAction(c *cli.Context) error {
	if c.NArg() != 1 {
		return usageError{errors.New("one directory is needed: nfsrdma-fuse umount DIRECTORY")}
	}
	return umount(c.Args().First(), umountOptions{Lazy: c.Bool("lazy"), Limit: c.Duration("timeout")})
}

func statusAction(c *cli.Context) error {
	return status(c.App.Writer, c.Args().Slice())
}

func demoAction(c *cli.Context) error {
	if c.Bool("verbose") {
		logrus.SetLevel(logrus.InfoLevel)
	}
	return demo(c.Context, c.App.Writer)
}

func versionAction(c *cli.Context) error {
	if version == "unknown" { // installed with go install
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
			version = info.Main.Version
		}
	}
	fmt.Fprintf(c.App.Writer, "nfsrdma-fuse %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// reorder puts options in front of the other arguments: mount(8) calls its
// helpers with the options last, and the flag parser stops at the first
// argument that is none.
func reorder(args []string, app *cli.App) []string {
	flags := app.Flags
	head := args[:1]
	rest := args[1:]
	if len(app.Commands) > 0 && len(rest) > 0 {
		cmd := app.Command(rest[0])
		if cmd == nil {
			return args
		}
		flags, head, rest = cmd.Flags, args[:2], rest[1:]
	}
	takesValue := map[string]bool{}
	for _, f := range flags {
		if _, isBool := f.(*cli.BoolFlag); !isBool {
			for _, n := range f.Names() {
				takesValue[n] = true
			}
		}
	}
	var options, others []string
	for i := 0; i < len(rest); i++ {
		a := rest[i]
		switch {
		case a == "--":
			others = append(others, rest[i+1:]...)
			i = len(rest)
		case len(a) > 1 && a[0] == '-':
			options = append(options, a)
			if takesValue[strings.TrimLeft(a, "-")] && i+1 < len(rest) {
				i++
				options = append(options, rest[i])
			}
		default:
			others = append(others, a)
		}
	}
	out := append(append([]string{}, head...), options...)
	return append(append(out, "--"), others...)
}
