package forward

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// optLen is the length of an OPT record without options.
const optLen = 11

// bufferLen is the room for one datagram. Upstreams are told that we take server.OurUDPSize; one that sends more than this all
// the same is asked again over TCP.
const bufferLen = 2048

// suspiciousLen is the length at which broken middleboxes cut replies off without setting TC: what RFC 1035 allows without EDNS.
const suspiciousLen = wire.MinUDPSize

// message is a reply on its way from the goroutine that read it to the one that waits for it.
type message struct {
	b []byte
}

// question is what a query becomes for an upstream: name, type and class of now, not of the client's message, and the flags and DO that
// change what the reply says. The id is put in for each attempt.
type question struct {
	msg  []byte // whole, with OPT at its end
	opt  int    // length of the OPT record
	qend int    // behind the question
}

// set builds the question, with EDNS options besides. AD is always set: the reply is shared by those who want to know whether it is authentic and those who do
// not, and the server tells each what it asked for (RFC 6840 5.7).
func (m *question) set(name []byte, t wire.Type, c wire.Class, flags wire.Flags, do bool, options []byte) {
	flags = flags&(wire.FlagRD|wire.FlagCD) | wire.FlagAD
	b := append(m.msg[:0], 0, 0, byte(flags>>8), byte(flags), 0, 1, 0, 0, 0, 0, 0, 1)
	b = append(b, name...)
	b = append(b, byte(t>>8), byte(t), byte(c>>8), byte(c))
	m.qend = len(b)
	var dobit byte
	if do {
		dobit = 0x80
	}
	m.msg = append(b, 0, 0, byte(wire.TypeOPT), server.OurUDPSize>>8, server.OurUDPSize&0xFF, 0, 0, dobit, 0, byte(len(options)>>8), byte(len(options)))
	m.msg = append(m.msg, options...)
	m.opt = optLen + len(options)
}

// randomizeCase gives the letters of the name random case, which whoever forges a reply has to guess too (draft-vixie-dnsext-dns0x20).
func (m *question) randomizeCase() {
	var bits uint64
	left := 0
	for i, c := range m.msg[wire.HeaderLen : m.qend-4] {
		if c |= 0x20; c < 'a' || c > 'z' {
			continue
		}
		if left == 0 {
			bits, left = rand.Uint64(), 64
		}
		m.msg[wire.HeaderLen+i] = c &^ (byte(bits&1) << 5)
		bits >>= 1
		left--
	}
}

// append adds the message to b with an id, and without OPT if plain is set.
func (m *question) append(b []byte, id uint16, plain bool) []byte {
	at := len(b)
	if plain {
		b = append(b, m.msg[:len(m.msg)-m.opt]...)
		b[at+11] = 0
	} else {
		b = append(b, m.msg...)
	}
	binary.BigEndian.PutUint16(b[at:], id)
	return b
}

// padTo is what questions over TLS are padded to a multiple of, so that their length does not tell which name is asked for (RFC 8467 4.1).
const padTo = 128

// optPadding is the EDNS option of RFC 7830, and optHead the length of an option's code and length.
const (
	optPadding = 12
	optHead    = 4
)

// appendPadded is append with the padding option at the end of OPT, which is the end of the message.
func (m *question) appendPadded(b []byte, id uint16) []byte {
	at := len(b)
	b = m.append(b, id, false)
	rdata := b[at+len(m.msg)-m.opt+optLen-2:]
	pad := (padTo - (len(m.msg)+optHead)%padTo) % padTo
	binary.BigEndian.PutUint16(rdata, uint16(m.opt-optLen+optHead+pad))
	b = append(b, 0, optPadding, byte(pad>>8), byte(pad))
	return append(b, make([]byte, pad)...)
}

// fit is how the question in a reply compares with ours.
type fit uint8

const (
	fits     fit = iota
	fitsCase     // but for letter case, though ours was random
	bare         // an error reply without a question
	foreign      // another question
)

// compare looks at the question in a reply of at least a header's length. exact says that letter case counts.
func (m *question) compare(reply []byte, exact bool) fit {
	ours := m.msg[wire.HeaderLen:m.qend]
	qd := binary.BigEndian.Uint16(reply[4:])
	if qd == 0 && reply[3]&0xF != 0 && bytes.Equal(reply[6:10], []byte{0, 0, 0, 0}) {
		return bare
	}
	if qd != 1 || len(reply) < m.qend {
		return foreign
	}
	theirs := reply[wire.HeaderLen:m.qend]
	if bytes.Equal(ours, theirs) {
		return fits
	}
	n := len(ours) - 4
	if !bytes.Equal(ours[n:], theirs[n:]) || !sameName(ours[:n], theirs[:n]) {
		return foreign
	}
	if exact {
		return fitsCase
	}
	return fits
}

// sameName compares two uncompressed names without letter case (RFC 4343). Length bytes are no letters.
func sameName(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i, c := range a {
		d := b[i]
		if c == d {
			continue
		}
		if c ^= d; c != 0x20 {
			return false
		}
		if d |= 0x20; d < 'a' || d > 'z' {
			return false
		}
	}
	return true
}

// quality is what a reply that answers the question is good for.
type quality uint8

const (
	whole     quality = iota
	cut               // TC is set, and what there is parses
	broken            // does not parse to its end
	stops512          // parses, but is just as long as what middleboxes cut off
	refusesEx         // the upstream does not do EDNS
)

// judge reads a reply whose question has been compared, to its last byte.
func judge(msg []byte) (quality, wire.RCode) {
	h, err := wire.ParseHeader(msg)
	if err != nil {
		return broken, 0
	}
	rcode := h.Flags.RCode()
	off, err := wire.SkipQuestion(msg, int(h.QDCount))
	if err != nil {
		return broken, rcode
	}
	e, err := wire.FindOPT(msg, h, off)
	switch {
	case err != nil || !sound(msg, h, off):
		return broken, rcode
	case h.Flags&wire.FlagTC != 0:
		return cut, rcode
	case !e.Present && (rcode == wire.RCodeFormErr || rcode == wire.RCodeNotImp), e.Ext != 0:
		return refusesEx, rcode | wire.RCode(e.Ext)<<4
	case len(msg) == suspiciousLen:
		return stops512, rcode
	}
	return whole, rcode
}

// sound says whether all names in the records can be read: FindOPT has looked at the records' bounds only.
func sound(msg []byte, h wire.Header, off int) bool {
	var room [1024]byte
	for range int(h.ANCount) + int(h.NSCount) + int(h.ARCount) {
		rr, err := wire.ReadRR(msg, off)
		if err != nil {
			return false
		}
		if _, _, err := wire.AppendName(room[:0], msg, rr.Owner); err != nil {
			return false
		}
		if holdsNames(rr.Type) {
			if _, err := wire.AppendRData(room[:0], msg, rr); err != nil {
				return false
			}
		}
		off = rr.End
	}
	return true
}

// holdsNames says whether the RDATA of a type may hold compressed names. For the others there is nothing to check, and copying
// their RDATA would be all that a look at them does.
func holdsNames(t wire.Type) bool {
	switch t {
	case wire.TypeA, wire.TypeAAAA, wire.TypeTXT, wire.TypeOPT, wire.TypeRRSIG, wire.TypeDS, wire.TypeDNSKEY, wire.TypeNSEC, wire.TypeNSEC3,
		wire.TypeHTTPS, wire.TypeSVCB, wire.TypeCAA, wire.TypeTLSA, wire.TypeSSHFP:
		return false
	}
	return true
}

// noData says whether a whole reply is NOERROR with an empty answer.
func noData(msg []byte) bool {
	return msg[3]&0xF == 0 && binary.BigEndian.Uint16(msg[6:]) == 0
}

// rcodeOf is the response code in a message's header.
func rcodeOf(msg []byte) wire.RCode { return wire.RCode(msg[3] & 0xF) }

// ednsErrors passes the Extended DNS Errors of an upstream on (RFC 8914 3: they are not hop-by-hop). Number and length are bounded, since
// they are somebody else's.
func ednsErrors(r *server.Reply, msg []byte) {
	if !r.WantsEDE() {
		return
	}
	h, err := wire.ParseHeader(msg)
	if err != nil || h.ARCount == 0 {
		return
	}
	off, err := wire.SkipQuestion(msg, int(h.QDCount))
	if err != nil {
		return
	}
	e, err := wire.FindOPT(msg, h, off)
	if err != nil {
		return
	}
	const option, most, longestText = 15, 4, 256
	n := 0
	for o := e.Options; len(o) >= 4 && n < most; {
		l := 4 + int(binary.BigEndian.Uint16(o[2:]))
		if l > len(o) {
			return
		}
		if binary.BigEndian.Uint16(o) == option && l >= 6 {
			text := bytes.TrimRight(o[6:l], "\x00")
			r.AddEDE(binary.BigEndian.Uint16(o[4:]), string(text[:min(len(text), longestText)]))
			n++
		}
		o = o[l:]
	}
}
