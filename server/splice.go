package server

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/clusterdns/clusterdns/server/wire"
)

// Splice says how a message becomes part of a reply.
type Splice struct {
	// Age, in seconds, is taken off every TTL, not below MinTTL.
	Age uint32
	// MinTTL and MaxTTL bound every TTL after that; MaxTTL 0 means no bound.
	MinTTL, MaxTTL uint32
	// Flags are those of AA, RA and AD that are taken over from the message where it has them; none once a CNAME has been followed.
	Flags wire.Flags
}

// Splice makes the records and rcode of msg, a whole reply message with one question, the rest of this reply: the question of msg is what
// is looked for now (Query.Name, in any letter case), as the caller has checked. OPT records in msg are left out. Addresses are
// put into random order if the block has loadbalance. A message that does not parse changes nothing and is an error. msg
// must stay as it is until the query is answered: finishers see it by Spliced.
//
// It does not allocate when msg fits and nothing has been written before.
func (r *Reply) Splice(msg []byte, o Splice) error {
	h, err := wire.ParseHeader(msg)
	if err != nil {
		return err
	}
	off, err := wire.SkipQuestion(msg, int(h.QDCount))
	if err != nil {
		return err
	}
	// The same length and, as the caller checked, the same name: offsets in msg are offsets here.
	if off != r.q.qend || len(r.buf) != r.q.qend || r.q.ref != QuestionRef || len(msg) > r.limit || !r.bulk(msg, h, off, o) {
		m := r.Mark()
		if err := r.each(msg, h, off, o); err != nil {
			r.Rewind(m)
			return err
		}
	}
	f := h.Flags & o.Flags
	if r.q.follows > 0 {
		f = 0 // flags speak for whoever answered the first name, and CoreDNS's recorded answers have no RA here
	}
	if !r.q.WantsAD() {
		f &^= wire.FlagAD
	}
	r.SetFlags(f)
	r.rcode = h.Flags.RCode()
	r.spliced = msg
	return nil
}

// Spliced is the message given to the last Splice: whole, whatever of it fitted the reply. It is nil if there was none.
func (r *Reply) Spliced() []byte { return r.spliced }

// bulk copies all records at once and then patches their TTLs. It says false, with nothing changed, if msg is not made so that it can.
func (r *Reply) bulk(msg []byte, h wire.Header, off int, o Splice) bool {
	n := len(r.buf)
	r.buf = append(r.buf, msg[off:]...)
	for range int(h.ANCount) + int(h.NSCount) + int(h.ARCount) {
		rr, err := wire.ReadRR(r.buf, off)
		if err != nil || rr.Type == wire.TypeOPT {
			r.buf = r.buf[:n]
			return false
		}
		binary.BigEndian.PutUint32(r.buf[rr.TTLAt:], o.ttl(rr.TTL))
		off = rr.End
	}
	if off != len(r.buf) {
		r.buf = r.buf[:n]
		return false
	}
	r.counts = [3]uint16{h.ANCount, h.NSCount, h.ARCount}
	switch {
	case h.ARCount > 0:
		r.sec = Additional
	case h.NSCount > 0:
		r.sec = Authority
	}
	if r.q.shuffle && h.ANCount > 1 {
		shuffle(r.buf, n, int(h.ANCount))
	}
	return true
}

func (o *Splice) ttl(t uint32) uint32 {
	t -= min(t, o.Age)
	if o.MaxTTL > 0 {
		t = min(t, o.MaxTTL)
	}
	return max(t, o.MinTTL)
}

// each copies record by record, which is what a reply that has records already, or has not the room for all, needs.
func (r *Reply) each(msg []byte, h wire.Header, off int, o Splice) error {
	if r.q.shuffle && h.ANCount > 1 {
		msg = bytes.Clone(msg)
		shuffle(msg, off, int(h.ANCount))
	}
	var qname [wire.MaxName]byte
	asked := r.q.Name.Bytes()
	if h.QDCount == 1 {
		var err error
		if asked, _, err = wire.AppendName(qname[:0], msg, wire.HeaderLen); err != nil {
			return err
		}
	}
	for s, count := range [...]uint16{h.ANCount, h.NSCount, h.ARCount} {
		for range count {
			rr, err := wire.ReadRR(msg, off)
			if err != nil {
				return err
			}
			off = rr.End
			if rr.Type == wire.TypeOPT {
				continue
			}
			if fits, err := r.copyRR(Section(s), msg, rr, asked, o.ttl(rr.TTL)); err != nil {
				return err
			} else if !fits && Section(s) != Additional {
				return nil // TC is set: what comes behind is of no use
			}
		}
	}
	return nil
}

// copyRR writes one record of another message. asked is the name in that message's question.
func (r *Reply) copyRR(s Section, msg []byte, rr wire.RR, asked []byte, ttl uint32) (fits bool, err error) {
	var name [wire.MaxName]byte
	owner, _, err := wire.AppendName(name[:0], msg, rr.Owner)
	if err != nil {
		return false, err
	}
	r.open(s)
	if wire.EqualFold(owner, asked) {
		r.putRef(Owner)
	} else {
		r.PutName(owner)
	}
	r.fixed(rr.Type, rr.Class, ttl)
	if rr.Type == wire.TypeCNAME {
		target, end, err := wire.AppendName(name[:0], msg, rr.Data)
		if err != nil {
			return false, err
		}
		if end > rr.End {
			return false, wire.ErrShort
		}
		r.PutName(target)
	} else if r.buf, err = wire.AppendRData(r.buf, msg, rr); err != nil {
		return false, err
	}
	if len(r.buf)-r.data > 0xFFFF {
		r.over = true
	}
	return r.End(), nil
}

// shuffle puts each run of address records of one owner and type among the count records at msg[off:] into uniformly random order. Only
// RDATA moves, in which no name stands, so pointers stay right.
func shuffle(msg []byte, off, count int) {
	var run [256]uint16 // RDATA offsets of the run so far
	n := 0
	var first wire.RR
	for range count {
		rr, err := wire.ReadRR(msg, off)
		if err != nil {
			return
		}
		off = rr.End
		if n > 0 && rr.Type == first.Type && rr.End-rr.Data == first.End-first.Data && sameOwner(msg, first, rr) && n < len(run) {
			run[n] = uint16(rr.Data)
			n++
			continue
		}
		permute(msg, run[:n], first)
		n = 0
		if rr.Type == wire.TypeA || rr.Type == wire.TypeAAAA {
			first, n = rr, 1
			run[0] = uint16(rr.Data)
		}
	}
	permute(msg, run[:n], first)
}

// permute swaps the equally long RDATA at the given offsets.
func permute(msg []byte, at []uint16, rr wire.RR) {
	l := rr.End - rr.Data
	if l > 16 {
		return
	}
	var tmp [16]byte
	for i := len(at) - 1; i > 0; i-- {
		j := rand.Uint32N(uint32(i + 1))
		a, b := msg[at[i]:int(at[i])+l], msg[at[j]:int(at[j])+l]
		copy(tmp[:l], a)
		copy(a, b)
		copy(b, tmp[:l])
	}
}

// sameOwner says whether two records have owners that stand in the same place or look the same.
func sameOwner(msg []byte, a, b wire.RR) bool {
	an, bn := msg[a.Owner:a.TTLAt-4], msg[b.Owner:b.TTLAt-4]
	if len(bn) == 2 && bn[0] >= 0xC0 && int(bn[0]&0x3F)<<8|int(bn[1]) == a.Owner {
		return true
	}
	return bytes.Equal(an, bn)
}
