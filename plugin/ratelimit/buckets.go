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
// and 44 bits of microseconds, which are 203 days and begin again after that. A slot whose bucket is empty is free.
const (
	timeBits = 44
	timeMask = 1<<timeBits - 1
	// skew, in microseconds, is how much later than another a query may be received and yet be counted before it, by workers that run at once.
	skew = 60_000_000
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
			left := b.left(old, t)
			if left > 0 && old>>timeBits != tag {
				break // somebody else's, and in use
			}
			if left += b.cost; left > b.depth {
				return false
			}
			if b.slots[i].CompareAndSwap(old, tag<<timeBits|(t+left)&timeMask) {
				return true
			}
		}
	}
	return true
}

// left is how long from t on the bucket of a slot will not be empty. No bucket is fuller than full, so a time that is farther ahead than that is past:
// the count has begun again since.
func (b *buckets) left(slot, t uint64) uint64 {
	left := (slot - t) & timeMask
	if slot == 0 || left > b.depth+skew {
		return 0
	}
	return left
}
