package server

import (
	"encoding/binary"
	"math"

	"github.com/clusterdns/clusterdns/server/wire"
)

// LevelTTL gives every record of the reply the least TTL among them, bounded by lo and hi. That is what a reply which is kept and expires as a whole
// shows, and finishers call it, or the handler that completes the reply. It does not allocate.
func (r *Reply) LevelTTL(lo, hi uint32) {
	least := uint32(math.MaxUint32)
	r.eachTTL(func(at []byte) { least = min(least, binary.BigEndian.Uint32(at)) })
	least = max(min(least, hi), lo)
	r.eachTTL(func(at []byte) { binary.BigEndian.PutUint32(at, least) })
}

// BoundTTL brings the TTL of every record into bounds. It does not allocate.
func (r *Reply) BoundTTL(lo, hi uint32) {
	r.eachTTL(func(at []byte) {
		binary.BigEndian.PutUint32(at, max(min(binary.BigEndian.Uint32(at), hi), lo))
	})
}

// eachTTL shows f the TTL of each record written so far.
func (r *Reply) eachTTL(f func(at []byte)) {
	off := r.q.qend
	for range int(r.counts[Answer]) + int(r.counts[Authority]) + int(r.counts[Additional]) {
		rr, err := wire.ReadRR(r.buf, off)
		if err != nil {
			return // a message spliced in holds a bad name: what stands is left as it is
		}
		f(r.buf[rr.TTLAt : rr.TTLAt+4])
		off = rr.End
	}
}
