package server

// Send sends what is written as a message of its own and begins another one for the same question: a zone transfer is as many messages as
// it takes (RFC 5936 2.2). Flags and rcode stay. Observers see the last message only. It is for AwaitAnswer, as it waits for the
// client, and says false, with nothing sent, for transports on which a query has one reply: all but TCP and TLS.
func (r *Reply) Send() bool {
	q := r.q
	if q.slab == nil || q.Transport != TCP && q.Transport != TLS {
		return false
	}
	limit := r.limit
	r.seal()
	q.slab.out.(*tcpConn).send(q.slab)
	r.limit = limit
	r.cut(q.qend)
	r.sec, r.counts = Answer, [3]uint16{}
	return true
}
