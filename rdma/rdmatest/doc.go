// Package rdmatest is for tests of what uses or implements rdma.QueuePair: an
// in-memory provider that checks every rule of the interface, and a suite of
// cases that any provider has to pass.
package rdmatest
