package nfsclient

// requestQueue is a list of requests that wait for a slot: urgent ones in front
// of others, each kind in the order of arrival.
type requestQueue struct {
	head, tail *request
}

func (q *requestQueue) push(r *request) {
	r.queued = true
	after := q.tail
	if r.urgent {
		after = nil
		for p := q.head; p != nil && p.urgent; p = p.next {
			after = p
		}
	}
	r.prev = after
	if after == nil {
		r.next = q.head
		q.head = r
	} else {
		r.next = after.next
		after.next = r
	}
	if r.next == nil {
		q.tail = r
	} else {
		r.next.prev = r
	}
}

func (q *requestQueue) remove(r *request) {
	if r.prev == nil {
		q.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		q.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next, r.queued = nil, nil, false
}
