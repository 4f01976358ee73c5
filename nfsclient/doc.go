// Package nfsclient is a client of NFS versions 4.1 and 4.2 (RFC 8881, RFC
// 7862) as a library: it needs no FUSE and no particular transport.
//
// New makes a Client of one server; its methods are operations on filehandles,
// each on behalf of a Cred, and Open returns a File to read and write. Errors
// are *Error values, for which Errno has the errno that Linux's NFS client
// would give to an application.
//
// # How it is built
//
// Machines without I/O know the protocol's rules; each has a file and a test of
// its own:
//
//	slotTable    which slots of the session are taken, with which sequence id
//	recovery     what is missing for the session to be usable, in which order
//	lease        when the lease has to be renewed
//	health       when a silent connection is probed and given up
//	share        what an owner has open of a file, and what to tell the server
//	delegations  which delegations there are
//	heldRanges   what an owner has locked of a file
//	ledger       who owns every byte that is written and not yet committed
//	features     what the server has said that it does not offer
//	cbSlotTable  which callbacks were executed, and how they were answered
//
// Around them, channel.go carries requests to the server and back, manager.go
// keeps session and client id in being, resend.go sends requests again after a
// loss of the connection, and callback.go serves the back channel.
//
// # What can be relied on
//
// An operation waits as long as its context allows (Options.Soft sets a
// limit). When its context is done it returns at once; the request it has sent
// keeps its slot, its credit and its buffers until it is answered or its
// session is lost. After a loss of the connection requests are sent again in
// the same slot with the same sequence id and body, so that the server carries
// them out once. If the session is lost too, those that can be repeated are
// issued anew, and the others fail with ErrUnknownOutcome.
//
// What a server has acknowledged and not yet committed is kept, and written
// again if the server restarts, before anybody can read there; Sync returns
// when nothing is left to keep. After a restart of the server open files are
// reclaimed, and so are byte-range locks. A lock that the server has dropped and
// does not give back makes every use of the file it was made through fail, until
// it is unlocked or the file is closed.
//
// # Locks
//
// None is held while waiting for the network, for memory or for a context.
// They nest in this order:
//
//	Client.mu           session, slots, queue, connection
//	  state.mu          open files, shares, delegations
//	    writes.mu       one file's ledger and WRITEs in flight
//	      uncommitted.mu
//	  jobs.mu
//	features.mu         what the server offers; never with another
//	Client.cbMu         slots of the back channel; never with another
//
// The turns of an openShare and of a locker are no locks but places in a queue:
// they are held while the server is told to close or downgrade, or to lock or
// unlock, with none of the above held. Who has a locker's turn may take an
// openShare's, not the other way round.
//
// # Goroutines
//
// A client has the manager, the resender and one that watches over the
// connection; at most maxJobs that clean up; one for each health check, renewal
// of the lease and doubtful slot, of which there are as many as slots at most; and
// one for each owner of locks that is locking or unlocking.
package nfsclient
