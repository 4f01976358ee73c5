// Package conformance tests the directory tree of any mounted file system: it
// makes the system calls that programs make and compares what comes back with
// what POSIX and Linux promise, or with a model kept in memory.
//
// Run works below one directory and knows nothing of what serves it, so the
// same cases run on a local disk (which shows that the suite itself is right),
// on a mount of this project over every transport, and on a mount of the
// kernel's own client.
//
// A file system that is served by the very process that tests it can deadlock
// inside the Go runtime: a page fault on a mapped file and the change of
// directory of a child before its exec block without the scheduler knowing.
// The cases keep clear of both (mappings are touched in a child process, tools
// change directory after their exec), so such a mount can be tested, but one
// served by another process is the safer choice for long runs.
//
// Cases that need more than one process start this very executable again; the
// package's init function then does the work of the child and exits. An
// executable that imports the package must therefore not do anything harmful
// in the init functions that run earlier.
package conformance
