// Package nfstest is an NFSv4.1 and 4.2 server in the same process, in memory,
// for tests and demonstrations: what net/http/httptest is for HTTP.
//
//	s := nfstest.NewServer(nfstest.Options{})
//	defer s.Close()
//	addr, err := s.ListenTCP("127.0.0.1:0") // or ListenRDMA
//
// The server follows RFC 8881, RFC 7862 and RFC 8276 as far as a client can
// tell: sessions with a reply cache, opens, share reservations, byte-range
// locks, delegations with recall, leases, grace periods, permissions by AUTH_SYS
// credentials. Where an RFC leaves a choice it does what the Linux server does,
// unless Options say otherwise. It does not do pNFS, RPCSEC_GSS or minor
// version 0.
//
// Tests interfere through hooks (see Server.Hook): they delay, drop, fail or
// corrupt any operation, cut connections, stop the server and start it again
// with or without its state. They watch through Server.Events and
// Server.Usage.
//
// # Time
//
// No timer runs inside the server: leases, grace periods and recalls are looked
// at whenever a request comes in, and by Server.Usage, with the time of
// Options.Now. A test that advances that clock sees the same as one that waits.
//
// # Locks
//
//	Server.mu         all protocol state: clients, sessions, slots, stateids
//	└── memfs locks   the file systems
//
// Nothing is sent and no hook is called while Server.mu is held.
package nfstest
