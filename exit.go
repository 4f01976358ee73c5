package main

import "errors"

// Exit statuses, as mount(8) has them.
const (
	exitUsage  = 1  // incorrect invocation or permissions
	exitSystem = 2  // system error: out of memory, cannot fork …
	exitMount  = 32 // mount failure
)

// exitError is an error with the exit status that goes with it.
type exitError struct {
	error
	status int
}

func (e exitError) Unwrap() error { return e.error }

// systemError is a failure of this machine rather than of the mount.
type systemError struct{ error }

func (e systemError) Unwrap() error { return e.error }

// exitStatus returns the status that the program ends with after err.
func exitStatus(err error) int {
	var (
		exit exitError
		sys  systemError
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.status
	case isUsage(err):
		return exitUsage
	case errors.As(err, &sys):
		return exitSystem
	}
	return exitMount
}
