package ratelimit

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
	"time"
)

// slots is how many clients are told apart: 512 KiB, of which two places each are looked at. A Pod network of a large node pool has fewer
// clients that are active within one burst.
const slots = 1 << 16

// A slot holds the client and when its bucket will be empty again, in one word that is changed as a whole: 20 bits of the client's hash,
// and 44 bits of microseconds, which are 203 days. A slot whose bucket is empty is free.
const (
	timeBits = 44
	timeMask = 1<<timeBits - 1
)

// buckets are one leaky bucket a client, by the generic cell rate algorithm (ITU-T I.371). They take no lock and no memory of their own.
type buckets struct {
	seed  maphash.Seed
	start time.Time
	cost  uint64 // of one query, in microseconds
	depth uint64 // what a bucket holds, in microseconds
	slots [slots]atomic.Uint64
}

func newBuckets(rate, burst int, start time.Time) *buckets {
	b := &buckets{seed: maphash.MakeSeed(), start: start, cost: uint64(max(1, 1_000_000/rate))}
	b.depth = b.cost * uint64(burst)
	return b
}

// take counts a query of a client and says whether it is within the limit. If more clients are active than can be told apart, those without a place
// are within it: nobody suffers for another's flood of addresses.
func (b *buckets) take(client netip.Prefix, now time.Time) bool {
	a := client.Addr().As16()
	h := maphash.Bytes(b.seed, a[:])
	t := uint64(now.Sub(b.start).Microseconds()) & timeMask
	tag := h >> timeBits
	for _, i := range [2]uint64{h % slots, (h >> 16) % slots} {
		for {
			old := b.slots[i].Load()
			until := old & timeMask
			if old>>timeBits != tag {
				if until > t {
					break // somebody else's, and in use
				}
				until = t
			}
			next := max(until, t) + b.cost
			if next > t+b.depth {
				return false
			}
			if b.slots[i].CompareAndSwap(old, tag<<timeBits|next) {
				return true
			}
		}
	}
	return true
}
