package cache

import (
	"bytes"
	"encoding/binary"
	"math"
	"time"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// maxChain is the longest chain of CNAMEs that is followed within one message. Resolvers give up between 8 and 16.
const maxChain = 16

// EDNS options that matter for keeping a message.
const (
	optSubnet = 8 // RFC 7871
	optEDE    = 15
)

// The Extended DNS Errors of an upstream are kept up to a number and length, since they are somebody else's.
const (
	maxEDE     = 4
	maxEDEText = 256
)

// message is a reply that is being judged for the cache.
type message struct {
	raw    []byte
	h      wire.Header
	qend   int
	k      *key
	rrs    []record
	ttl    uint32 // least of the records that are kept, MaxUint32 for none
	opt    int    // index of OPT in rrs, or -1
	drops  int    // records that are not kept, OPT apart
	chain  [][]byte
	first  [2][]byte // room for the usual chain
	apex   []byte    // owner of the SOA or NS that speaks for the last name
	subnet bool      // the answer is for one client subnet only
	ede    []server.ExtendedError
}

// record is one record with its owner folded.
type record struct {
	wire.RR
	section server.Section
	owner   []byte
	keep    bool
}

// verdict is what inspect says of a message.
type verdict struct {
	kind kind
	// shown is the kind whose bounds the reply's TTLs have: kind itself, or the next best for a reply that is not to be kept.
	shown kind
	ttl   uint32 // as the message says, without the bounds of the options
	// alien: the message answers another question.
	alien bool
}

// inspect judges raw, the reply to k's question.
func inspect(raw []byte, k *key) (*message, verdict) {
	m := &message{raw: raw, k: k, ttl: math.MaxUint32, opt: -1}
	m.chain = m.first[:0]
	var err error
	if m.h, err = wire.ParseHeader(raw); err != nil {
		return nil, verdict{}
	}
	if !m.sameQuestion() {
		return nil, verdict{alien: true}
	}
	if m.h.Flags&wire.FlagTC != 0 || m.parse() != nil || m.subnet {
		return nil, verdict{}
	}
	switch m.h.Flags.RCode() {
	case wire.RCodeNoError, wire.RCodeNXDomain:
		return m, m.judge()
	case wire.RCodeServFail, wire.RCodeNotImp, wire.RCodeRefused:
		return m, verdict{kind: failure}
	}
	return nil, verdict{}
}

// sameQuestion compares the question of the message, letter case aside.
func (m *message) sameQuestion() bool {
	if m.h.QDCount != 1 {
		return false
	}
	var n wire.Name
	p, err := n.Parse(m.raw, wire.HeaderLen)
	if err != nil || p+4 > len(m.raw) {
		return false
	}
	m.qend = p + 4
	return bytes.Equal(n.Folded(), m.k.name) && wire.Type(binary.BigEndian.Uint16(m.raw[p:])) == m.k.typ &&
		wire.Class(binary.BigEndian.Uint16(m.raw[p+2:])) == m.k.class
}

// parse takes the records apart and makes sure that each can be written to another message.
func (m *message) parse() error {
	off := m.qend
	// A record is 11 bytes at least, so counts beyond that are lies.
	m.rrs = make([]record, 0, min(int(m.h.ANCount)+int(m.h.NSCount)+int(m.h.ARCount), len(m.raw)/11))
	var buf [2*wire.MaxName + 32]byte // an SOA; what is longer takes memory
	scratch := buf[:0]
	for s, count := range [...]uint16{m.h.ANCount, m.h.NSCount, m.h.ARCount} {
		for range count {
			rr, err := wire.ReadRR(m.raw, off)
			if err != nil {
				return err
			}
			off = rr.End
			r := record{RR: rr, section: server.Section(s), owner: m.k.name}
			if binary.BigEndian.Uint16(m.raw[rr.Owner:]) != 0xC000|wire.HeaderLen {
				if r.owner, _, err = wire.AppendName(nil, m.raw, rr.Owner); err != nil {
					return err
				}
				wire.Fold(r.owner)
			}
			if scratch, err = wire.AppendRData(scratch[:0], m.raw, rr); err != nil {
				return err
			}
			if rr.Type == wire.TypeOPT {
				m.opt = len(m.rrs)
			}
			m.rrs = append(m.rrs, r)
		}
	}
	e, err := wire.FindOPT(m.raw, m.h, m.qend)
	if err != nil {
		return err
	}
	m.options(e.Options)
	return nil
}

// options reads what matters of the OPT record. wire has checked its form.
func (m *message) options(o []byte) {
	for len(o) >= 4 {
		code, l := binary.BigEndian.Uint16(o), 4+int(binary.BigEndian.Uint16(o[2:]))
		data := o[4:l]
		switch {
		case code == optSubnet && len(data) >= 4 && data[3] > 0:
			m.subnet = true // SCOPE PREFIX-LENGTH (RFC 7871 7.3.1)
		case code == optEDE && len(data) >= 2 && len(m.ede) < maxEDE:
			text := bytes.TrimRight(data[2:], "\x00")
			m.ede = append(m.ede, server.ExtendedError{Code: binary.BigEndian.Uint16(data), Text: string(text[:min(len(text), maxEDEText)])})
		}
		o = o[l:]
	}
}

// judge follows the chain of CNAMEs and finds what the message says of its end.
func (m *message) judge() verdict {
	answered := m.follow()
	m.mark()
	if m.h.Flags.RCode() == wire.RCodeNoError && answered {
		return verdict{kind: success, shown: success, ttl: m.ttl}
	}
	last := m.chain[len(m.chain)-1]
	for i := range m.rrs {
		r := &m.rrs[i]
		if r.section == server.Authority && r.Type == wire.TypeSOA && r.keep && within(last, r.owner) && r.End-r.Data >= 22 {
			minimum := binary.BigEndian.Uint32(m.raw[r.End-4:])
			return verdict{kind: denial, shown: denial, ttl: min(m.ttl, minimum)}
		}
	}
	// RFC 2308 5: a denial without an SOA is not kept.
	if m.h.Flags.RCode() == wire.RCodeNXDomain {
		return verdict{shown: denial, ttl: m.ttl}
	}
	return verdict{shown: success, ttl: m.ttl}
}

// follow sets the chain of names that the answer leads through and says whether there is data at its end.
func (m *message) follow() (answered bool) {
	m.chain = append(m.chain, m.k.name)
	for range maxChain {
		last := m.chain[len(m.chain)-1]
		var target []byte
		for i := range m.rrs {
			r := &m.rrs[i]
			if r.section != server.Answer || r.Class != m.k.class || !bytes.Equal(r.owner, last) {
				continue
			}
			if r.Type == m.k.typ || m.k.typ == wire.TypeANY {
				return true
			}
			if r.Type == wire.TypeCNAME {
				target, _, _ = wire.AppendName(nil, m.raw, r.Data)
			}
		}
		if target == nil {
			return false
		}
		wire.Fold(target)
		m.chain = append(m.chain, target)
	}
	return false
}

// mark decides which records belong to the question, and finds their least TTL.
func (m *message) mark() {
	for i := range m.rrs {
		r := &m.rrs[i]
		if r.section == server.Authority && (r.Type == wire.TypeSOA || r.Type == wire.TypeNS) && m.covers(r.owner) {
			m.apex = r.owner
		}
	}
	var named map[string]bool // names that records kept so far lead to
	for i := range m.rrs {
		r := &m.rrs[i]
		if r.Type == wire.TypeOPT {
			continue
		}
		if r.section == server.Additional && named == nil {
			named = m.named()
		}
		if r.keep = r.Class == m.k.class && m.belongs(r, named); !r.keep {
			m.drops++
			continue
		}
		m.ttl = min(m.ttl, lifetime(m.raw, r))
	}
}

// belongs says whether a record has to do with the question. In Answer it is owned by a name of the chain, or is the DNAME above one; in
// Authority it speaks of a zone that a name of the chain is in; in Additional another record leads to it.
func (m *message) belongs(r *record, named map[string]bool) bool {
	switch r.section {
	case server.Answer:
		return m.leads(r.owner) || (r.Type == wire.TypeDNAME || r.Type == wire.TypeRRSIG) && m.covers(r.owner)
	case server.Authority:
		return m.covers(r.owner) || m.apex != nil && proof(r.Type) && within(r.owner, m.apex)
	}
	return named[string(r.owner)]
}

// lifetime is the TTL of a record: 0 when its top bit is set (RFC 2181 8), and for a signature no more than until it expires (RFC 4035 5.3.3).
func lifetime(raw []byte, r *record) uint32 {
	if r.TTL > math.MaxInt32 {
		return 0
	}
	if r.Type != wire.TypeRRSIG || r.End-r.Data < 12 {
		return r.TTL
	}
	left := int32(binary.BigEndian.Uint32(raw[r.Data+8:]) - uint32(time.Now().Unix())) // serial arithmetic (RFC 4034 3.1.5)
	return min(r.TTL, uint32(max(left, 0)))
}

// proof says whether a record of the authority section may be owned by a neighbour of the name that it speaks of.
func proof(t wire.Type) bool {
	return t == wire.TypeNSEC || t == wire.TypeNSEC3 || t == wire.TypeRRSIG
}

// leads says whether the name is in the chain.
func (m *message) leads(name []byte) bool {
	for _, c := range m.chain {
		if bytes.Equal(c, name) {
			return true
		}
	}
	return false
}

// covers says whether the name is one of the chain or above one.
func (m *message) covers(name []byte) bool {
	for _, c := range m.chain {
		if within(c, name) {
			return true
		}
	}
	return false
}

// within says whether a name is at or below another. Both are folded and uncompressed.
func within(name, zone []byte) bool {
	for len(name) > len(zone) {
		name = name[1+int(name[0]):]
	}
	return bytes.Equal(name, zone)
}

// named are the names that kept records of Answer and Authority lead to: owners that Additional may have.
func (m *message) named() map[string]bool {
	out := map[string]bool{}
	for i := range m.rrs {
		r := &m.rrs[i]
		skip := 0
		switch r.Type {
		case wire.TypeNS:
		case wire.TypeMX, wire.TypeKX, wire.TypeAFSDB, wire.TypeRT, wire.TypeSVCB, wire.TypeHTTPS:
			skip = 2
		case wire.TypeSRV:
			skip = 6
		default:
			continue
		}
		if !r.keep || r.Data+skip >= r.End {
			continue
		}
		if name, _, err := wire.AppendName(nil, m.raw, r.Data+skip); err == nil {
			wire.Fold(name)
			if len(name) == 1 {
				name = r.owner // SVCB: the target "." is the owner (RFC 9460 2.5.1)
			}
			out[string(name)] = true
		}
	}
	return out
}

// pack gives what is kept of the message: its own copy, with the name of the question in lower case. It is nil if that is longer than a
// message may be, which happens only where names had to be written in full.
func (m *message) pack() []byte {
	whole := m.drops == 0 && (m.opt < 0 || m.opt == len(m.rrs)-1)
	h := wire.Header{Flags: m.h.Flags, QDCount: 1}
	if !whole {
		if out := m.rebuild(h); len(out) <= wire.MaxMessage {
			return out
		}
		return nil
	}
	end := len(m.raw)
	h.ANCount, h.NSCount, h.ARCount = m.h.ANCount, m.h.NSCount, m.h.ARCount
	if m.opt >= 0 {
		end = m.rrs[m.opt].Owner
		h.ARCount--
	}
	out := bytes.Clone(m.raw[:end])
	wire.PutHeader(out, h)
	wire.Fold(out[wire.HeaderLen : m.qend-4])
	return out
}

// rebuild writes the kept records only. Their names are in full but for the question's, so that none points to what is gone.
func (m *message) rebuild(h wire.Header) []byte {
	out := make([]byte, wire.HeaderLen, len(m.raw))
	out = append(out, m.raw[wire.HeaderLen:m.qend]...)
	wire.Fold(out[wire.HeaderLen : m.qend-4])
	counts := [...]*uint16{&h.ANCount, &h.NSCount, &h.ARCount}
	for i := range m.rrs {
		r := &m.rrs[i]
		if !r.keep {
			continue
		}
		if bytes.Equal(r.owner, m.k.name) {
			out = append(out, 0xC0, wire.HeaderLen)
		} else {
			out, _, _ = wire.AppendName(out, m.raw, r.Owner)
		}
		out = append(out, m.raw[r.TTLAt-4:r.TTLAt+4]...)
		at := len(out)
		out = append(out, 0, 0)
		out, _ = wire.AppendRData(out, m.raw, r.RR)
		binary.BigEndian.PutUint16(out[at:], uint16(len(out)-at-2))
		*counts[r.section]++
	}
	wire.PutHeader(out, h)
	return out
}

// failed gives the message of a failure: a header with the rcode and the question, no records.
func failed(k *key, flags wire.Flags) []byte {
	out := make([]byte, wire.HeaderLen, wire.HeaderLen+len(k.name)+4)
	wire.PutHeader(out, wire.Header{Flags: flags &^ (wire.FlagAA | wire.FlagAD | wire.FlagTC), QDCount: 1})
	out = append(out, k.name...)
	return append(out, byte(k.typ>>8), byte(k.typ), byte(k.class>>8), byte(k.class))
}
