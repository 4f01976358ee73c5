package nfsclient

import "time"

// lease keeps the time by which the server forgets the client's state (RFC
// 8881 section 8.3). Every successful SEQUENCE renews it. Time is an argument;
// a lease is not safe for concurrent use.
//
// The renewal is reckoned from when the request was sent and not from when its
// reply came: the server may have looked at its clock at any time between.
type lease struct {
	period time.Duration
	last   time.Time // when the last request that renewed the lease was sent
}

// newLease returns a lease that was renewed by a request sent at that time.
func newLease(period time.Duration, sent time.Time) *lease {
	return &lease{period: period, last: sent}
}

// renewed notes a successful SEQUENCE that was sent at that time. Replies may
// arrive in any order.
func (l *lease) renewed(sent time.Time) {
	if sent.After(l.last) {
		l.last = sent
	}
}

// due returns when a renewal has to be sent if nothing else is: after half of
// the period, which leaves the other half for a lost connection and a second
// attempt.
func (l *lease) due() time.Time { return l.last.Add(l.period / 2) }
