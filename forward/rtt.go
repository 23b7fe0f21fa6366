package forward

import (
	"sync/atomic"
	"time"
)

// Bounds of how long an attempt may be alone before the next one begins.
const (
	// patienceFloor is above what resolvers take for most names that they have to look up themselves. Below it, every such name would be
	// asked twice; a lost datagram costs a client this much.
	patienceFloor = 100 * time.Millisecond
	// patienceCeiling lets an upstream behind a slow link be waited for, and leaves room for a second and third attempt before clients
	// give up.
	patienceCeiling = time.Second
	// patienceUnknown is for an upstream that has not replied yet: with a reply of the next one behind it, clients still have their answer
	// within 300 ms.
	patienceUnknown = 150 * time.Millisecond
	// dialFactor makes room for the handshakes of TCP and TLS before a question can leave.
	dialFactor = 3
)

// rtt estimates how long an upstream takes, as TCP does (RFC 6298 2): a smoothed mean and a smoothed deviation, in microseconds, packed
// into one word. Updates that race lose one sample, which does no harm. The zero value knows nothing.
type rtt struct{ v atomic.Uint64 }

func (r *rtt) add(took time.Duration) {
	us := max(1, min(uint64(took.Microseconds()), 60_000_000))
	old := r.v.Load()
	mean, dev := old>>32, old&0xFFFFFFFF
	if mean == 0 {
		r.v.Store(us<<32 | us/2)
		return
	}
	diff := max(mean, us) - min(mean, us)
	dev += diff/4 - dev/4
	mean = (7*mean + us) / 8
	r.v.Store(max(1, mean)<<32 | dev)
}

// patience is how long to wait for a reply before the question is asked once more, elsewhere if possible.
func (r *rtt) patience() time.Duration {
	v := r.v.Load()
	if v == 0 {
		return patienceUnknown
	}
	d := time.Duration(v>>32+4*(v&0xFFFFFFFF)) * time.Microsecond
	return max(patienceFloor, min(d, patienceCeiling))
}
