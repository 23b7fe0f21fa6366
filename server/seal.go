package server

import "github.com/clusterdns/clusterdns/server/wire"

// optEDE is the EDNS option code of Extended DNS Errors (RFC 8914 2).
const optEDE = 15

// seal completes the message: OPT for a client that sent one (RFC 6891 6.1.1), then the header.
func (r *Reply) seal() {
	q := r.q
	extra := r.counts[Additional]
	if q.EDNS.Present {
		r.putOPT()
		extra++
	}
	h := wire.Header{
		ID:      q.ID,
		Flags:   r.flags | q.Flags&0x7800 | wire.Flags(r.rcode&0xF),
		ANCount: r.counts[Answer],
		NSCount: r.counts[Authority],
		ARCount: extra,
	}
	if q.qend > 0 {
		h.QDCount = 1
	}
	wire.PutHeader(r.buf, h)
}

// putOPT appends the OPT record. Its 11 bytes were kept free; Extended DNS Errors are left out where they do not fit.
func (r *Reply) putOPT() {
	do := byte(0)
	if r.q.EDNS.DO {
		do = 0x80
	}
	r.limit += optLen
	r.buf = append(r.buf, 0, 0, byte(wire.TypeOPT), OurUDPSize>>8, OurUDPSize&0xFF, byte(r.rcode>>4), 0, do, 0, 0, 0)
	at := len(r.buf)
	r.putOptions()
	r.putErrors()
	n := len(r.buf) - at
	r.buf[at-2], r.buf[at-1] = byte(n>>8), byte(n)
}
