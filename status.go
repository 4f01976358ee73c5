package main

import (
	"fmt"
	"io"
)

// status shows what the mounts on dirs go over and why, or all mounts of this
// user if there are no dirs.
func status(out io.Writer, dirs []string) error {
	if len(dirs) == 0 {
		all, err := findRecords()
		for _, r := range all {
			r.show(out)
			r.file.Close()
		}
		if err != nil {
			return systemError{err}
		}
		if len(all) == 0 {
			fmt.Fprintln(out, "nothing is mounted")
		}
		return nil
	}
	for _, dir := range dirs {
		abs, err := mountedPath(dir)
		if err != nil {
			return systemError{err}
		}
		r, err := findRecord(abs)
		if err != nil {
			return systemError{err}
		}
		if r == nil {
			return exitError{fmt.Errorf("%s is not mounted by nfsrdma-fuse", dir), exitUsage}
		}
		r.show(out)
		r.file.Close()
	}
	return nil
}

func (r *record) show(out io.Writer) {
	fmt.Fprintf(out, "%s on %s (process %d)\n", r.Spec, r.Dir, r.PID)
	if r.Transport == (choice{}) {
		fmt.Fprintln(out, "  not connected yet")
		return
	}
	fmt.Fprintf(out, "  over %v\n  because %s\n", r.Transport, r.Transport.Reason)
}
