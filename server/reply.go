package server

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"github.com/clusterdns/clusterdns/server/wire"
)

// Section is a section of the reply. They are written in this order: a record for an earlier one than the last written is a
// fault of the program and panics.
type Section uint8

// The sections of a reply (RFC 1035 4.1).
const (
	Answer Section = iota
	Authority
	Additional
)

// Ref is the offset of a name in the reply, for records that repeat it. It is valid until a Rewind to before it.
type Ref uint16

const (
	// NoRef is no name.
	NoRef Ref = 0
	// Owner stands for the name that is looked for now, Query.Name, wherever it stands; it is written in full if it does not yet.
	Owner Ref = 0xFFFF
	// QuestionRef is where the name of the question stands in every reply.
	QuestionRef Ref = wire.HeaderLen
	// maxPointer is the highest offset that a compression pointer can hold (RFC 1035 4.1.4).
	maxPointer = 0x3FFF
)

// optLen is what an OPT record without options takes; it is kept free for clients that sent EDNS.
const optLen = 11

// OurUDPSize is what we say in OPT that we take over UDP: it never fragments (DNS flag day 2020).
const OurUDPSize = 1232

// maxFinishers bounds those of one query: cache, rewrite, and a few more directives can register one per start of the chain.
const maxFinishers = 32

type finisher struct {
	f     Finisher
	state uint64
}

// ExtendedError is an Extended DNS Error (RFC 8914): INFO-CODE and EXTRA-TEXT.
type ExtendedError struct {
	Code uint16
	Text string
}

// Reply is the reply being written. It is a transaction: what was written since a Mark can be taken back.
// A record that does not fit sets TC when it is for the Answer or Authority section, and is left out when it is Additional.
type Reply struct {
	q      *Query
	buf    []byte // the message; len is what is written
	limit  int    // the most that buf may hold, OPT not counted
	sec    Section
	counts [3]uint16
	flags  wire.Flags
	rcode  wire.RCode
	rec    int // where the record being written begins
	data   int // where its RDATA begins
	over   bool

	names compressor

	spliced  []byte
	scratch  []byte
	order    []uint32
	finishes []finisher
	errors   []ExtendedError
	texts    []textSpan // of those errors whose text stands in words
	words    []byte
	options  []ednsOption
	faults   []error
	cause    error
	by       string
	dropped  bool
}

// Mark is a state of the reply to go back to.
type Mark struct {
	n      int
	sec    Section
	counts [3]uint16
	flags  wire.Flags
	rcode  wire.RCode
}

// start begins the reply to q, whose question has been parsed, with at most limit bytes.
func (r *Reply) start(q *Query, limit int) {
	r.reset(q)
	r.limit = limit
	if q.EDNS.Present {
		r.limit -= optLen
	}
	r.buf = append(r.buf[:0], q.raw[:q.qend]...)
	q.ref = QuestionRef
}

// reset forgets the reply before, so that a header alone can be sealed.
func (r *Reply) reset(q *Query) {
	r.q, r.limit = q, wire.MaxMessage
	r.buf = r.buf[:0]
	r.sec, r.counts, r.rcode, r.over = Answer, [3]uint16{}, wire.RCodeNoError, false
	r.flags = wire.FlagQR | q.Flags&(wire.FlagRD|wire.FlagCD)
	r.names.rewind(0)
	r.spliced = nil
	r.finishes = r.finishes[:0]
	r.errors, r.texts, r.words = r.errors[:0], r.texts[:0], r.words[:0]
	r.options = r.options[:0]
	r.faults = r.faults[:0]
	r.by, r.dropped, r.cause = "", false, nil
}

// RCode is the response code as it stands.
func (r *Reply) RCode() wire.RCode { return r.rcode }

// SetRCode sets the response code.
func (r *Reply) SetRCode(c wire.RCode) { r.rcode = c }

// Flags are the header flags as they stand, opcode and rcode not included.
func (r *Reply) Flags() wire.Flags { return r.flags }

// SetAA says that the answer is authoritative. AA speaks of the first owner name only (RFC 1035 4.1.1), so it does nothing once a
// CNAME has been followed.
func (r *Reply) SetAA() {
	if r.q.follows == 0 {
		r.flags |= wire.FlagAA
	}
}

// SetFlags sets the given flags among AA, TC, RD, RA and AD, and leaves the others.
func (r *Reply) SetFlags(f wire.Flags) {
	r.flags |= f & (wire.FlagAA | wire.FlagTC | wire.FlagRD | wire.FlagRA | wire.FlagAD)
}

// ClearFlags clears the given flags among AA, RA, AD, RD, CD.
func (r *Reply) ClearFlags(f wire.Flags) {
	r.flags &^= f & (wire.FlagAA | wire.FlagRA | wire.FlagAD | wire.FlagRD | wire.FlagCD)
}

// Truncated says whether something did not fit, so that TC is set.
func (r *Reply) Truncated() bool { return r.flags&wire.FlagTC != 0 }

// Count is how many records a section has.
func (r *Reply) Count(s Section) int { return int(r.counts[s]) }

// Empty says whether no record has been written.
func (r *Reply) Empty() bool { return r.counts == [3]uint16{} }

// Len is the length of the reply in bytes: what is written so far, or the whole of it once an Observer sees it.
func (r *Reply) Len() int { return len(r.buf) }

// Bytes is the reply as far as it is written: the question and the records; the header and OPT are right only once an Observer sees it. It
// aliases the reply and must not be changed.
func (r *Reply) Bytes() []byte { return r.buf }

// By is the name of the directive that completed the reply, or "" for the server itself.
func (r *Reply) By() string { return r.by }

// Dropped says whether no reply is sent.
func (r *Reply) Dropped() bool { return r.dropped }

// LimitSize makes the reply at most n bytes long, and not shorter than its question and OPT. What is longer is truncated.
func (r *Reply) LimitSize(n int) {
	if r.q.EDNS.Present {
		n -= optLen
	}
	r.limit = min(r.limit, max(n, r.q.qend))
}

// Fault records an error that the errors directive logs; it changes nothing of the reply. It may be called more than once.
func (r *Reply) Fault(err error) { r.faults = append(r.faults, err) }

// Faults are the recorded errors in order. They alias the reply.
func (r *Reply) Faults() []error { return r.faults }

// SetCause records why the query failed where whoever failed has a line of its own in the log, such as an upstream: log shows it as the
// reason, and errors says nothing for each query.
func (r *Reply) SetCause(err error) { r.cause = err }

// Cause is what SetCause recorded, or nil.
func (r *Reply) Cause() error { return r.cause }

// Fail makes the reply SERVFAIL for the reason given and says Done. What was written before stays: an Answer of CNAMEs tells the client how
// far it went.
func (r *Reply) Fail(err error) Verdict {
	r.rcode = wire.RCodeServFail
	if err != nil {
		r.Fault(err)
	}
	return Done
}

// OnFinish registers f to be called with state once the reply is final. Over maxFinishers it is a fault of the program and panics.
func (r *Reply) OnFinish(f Finisher, state uint64) {
	if len(r.finishes) == maxFinishers {
		panic("server: more than 32 finishers registered for one query")
	}
	r.finishes = append(r.finishes, finisher{f, state})
}

// Mark remembers the state of the reply.
func (r *Reply) Mark() Mark { return Mark{len(r.buf), r.sec, r.counts, r.flags, r.rcode} }

// Rewind takes back everything since the mark: records, flags, rcode, and the names that later ones could have pointed to.
func (r *Reply) Rewind(m Mark) {
	r.cut(m.n)
	r.sec, r.counts, r.flags, r.rcode = m.sec, m.counts, m.flags, m.rcode
	r.spliced = nil
}

// cut shortens the message to n bytes and forgets names behind that.
func (r *Reply) cut(n int) {
	r.buf = r.buf[:n]
	r.names.rewind(n)
	if int(r.q.ref) >= n {
		r.q.ref = NoRef
	}
}

// Order gives the numbers 0 to n-1 in the order in which n records of equal rank should be written: uniformly random if the block has
// loadbalance, so that each comes first equally often however many fit, and ascending otherwise. It is valid until the next call.
func (r *Reply) Order(n int) []uint32 {
	if cap(r.order) < n {
		r.order = make([]uint32, max(n, 64))
	}
	o := r.order[:n]
	for i := range o {
		o[i] = uint32(i)
	}
	if r.q.shuffle {
		for i := n - 1; i > 0; i-- {
			j := rand.Uint32N(uint32(i + 1))
			o[i], o[j] = o[j], o[i]
		}
	}
	return o
}

// Begin starts a record: owner, type, the query's class (IN for ANY), TTL. The RDATA follows by the Put methods, then End.
func (r *Reply) Begin(s Section, owner Ref, t wire.Type, ttl uint32) {
	r.open(s)
	r.putRef(owner)
	class := r.q.Class
	if class == wire.ClassANY {
		class = wire.ClassIN
	}
	r.fixed(t, class, ttl)
}

// BeginName is Begin for an owner that need not stand in the reply yet, in uncompressed wire form. It gives where the name stands now.
func (r *Reply) BeginName(s Section, owner []byte, t wire.Type, ttl uint32) Ref {
	r.open(s)
	ref := r.PutName(owner)
	class := r.q.Class
	if class == wire.ClassANY {
		class = wire.ClassIN
	}
	r.fixed(t, class, ttl)
	return ref
}

func (r *Reply) open(s Section) {
	if s < r.sec {
		panic("server: record for a section that is already closed")
	}
	r.sec = s
	r.rec = len(r.buf)
	r.over = false
}

func (r *Reply) fixed(t wire.Type, c wire.Class, ttl uint32) {
	r.buf = append(r.buf, byte(t>>8), byte(t), byte(c>>8), byte(c),
		byte(ttl>>24), byte(ttl>>16), byte(ttl>>8), byte(ttl), 0, 0)
	r.data = len(r.buf)
}

// putRef writes the name that stands at ref.
func (r *Reply) putRef(ref Ref) {
	switch {
	case ref == Owner && r.q.ref != NoRef:
		ref = r.q.ref
	case ref == Owner:
		r.q.ref = r.PutName(r.q.Name.Bytes())
		return
	}
	if ref > maxPointer {
		var name [wire.MaxName]byte
		b, _, err := wire.AppendName(name[:0], r.buf, int(ref))
		if err != nil {
			panic("server: Ref is not a name of this reply")
		}
		r.PutName(b)
		return
	}
	r.buf = append(r.buf, 0xC0|byte(ref>>8), byte(ref))
}

// End completes the record and says whether it fitted. One that did not is gone, and TC is set unless it was Additional.
func (r *Reply) End() bool {
	if len(r.buf) > r.limit || r.over || r.counts[r.sec] == 0xFFFF {
		r.cut(r.rec)
		if r.sec != Additional {
			r.flags |= wire.FlagTC
		}
		return false
	}
	binary.BigEndian.PutUint16(r.buf[r.data-2:], uint16(len(r.buf)-r.data))
	r.counts[r.sec]++
	return true
}

// Put appends bytes to the RDATA.
func (r *Reply) Put(b []byte) { r.buf = append(r.buf, b...) }

// PutString appends bytes to the RDATA.
func (r *Reply) PutString(s string) { r.buf = append(r.buf, s...) }

// PutUint16 appends a number to the RDATA.
func (r *Reply) PutUint16(v uint16) { r.buf = append(r.buf, byte(v>>8), byte(v)) }

// PutUint32 appends a number to the RDATA.
func (r *Reply) PutUint32(v uint32) {
	r.buf = append(r.buf, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

// PutName appends a name in uncompressed wire form, compressed against what stands before it to the letter, case included,
// and gives where it stands.
func (r *Reply) PutName(name []byte) Ref {
	at := Ref(min(len(r.buf), 0xFFFE))
	r.names.seed(r.buf, r.q.qend)
	r.buf = r.names.put(r.buf, name)
	return at
}

// PutLabels appends labels (wire form without a root label; may be empty) in front of a name that already stands in the reply, and gives where the new name
// stands. It is the cheap way to names such as SRV targets, which share their end with the question.
func (r *Reply) PutLabels(labels []byte, rest Ref) Ref {
	at := Ref(min(len(r.buf), 0xFFFE))
	r.buf = append(r.buf, labels...)
	r.putRef(rest)
	return at
}

// Sub is where the part of the question's name from its label i on stands in the reply. The question's name is what the client asked.
func (r *Reply) Sub(i int) Ref {
	off := wire.HeaderLen
	for ; i > 0 && r.buf[off] != 0; i-- {
		off += int(r.buf[off]) + 1
	}
	return Ref(off)
}

// A appends an A record; addr must be IPv4.
func (r *Reply) A(s Section, owner Ref, ttl uint32, addr [4]byte) bool {
	r.Begin(s, owner, wire.TypeA, ttl)
	r.buf = append(r.buf, addr[:]...)
	return r.End()
}

// AAAA appends an AAAA record.
func (r *Reply) AAAA(s Section, owner Ref, ttl uint32, addr [16]byte) bool {
	r.Begin(s, owner, wire.TypeAAAA, ttl)
	r.buf = append(r.buf, addr[:]...)
	return r.End()
}

// Addr appends an A or AAAA record, as the address is.
func (r *Reply) Addr(s Section, owner Ref, ttl uint32, addr netip.Addr) bool {
	if addr.Is4() {
		return r.A(s, owner, ttl, addr.As4())
	}
	return r.AAAA(s, owner, ttl, addr.As16())
}

// CNAME appends a CNAME to the Answer section and gives where the target, in uncompressed wire form, stands.
func (r *Reply) CNAME(owner Ref, ttl uint32, target []byte) (Ref, bool) {
	r.Begin(Answer, owner, wire.TypeCNAME, ttl)
	ref := r.PutName(target)
	return ref, r.End()
}

// PTR appends a PTR record to the Answer section; target is in uncompressed wire form.
func (r *Reply) PTR(owner Ref, ttl uint32, target []byte) bool {
	r.Begin(Answer, owner, wire.TypePTR, ttl)
	r.PutName(target)
	return r.End()
}

// TXT appends a TXT record of one string, which is cut at 255 bytes.
func (r *Reply) TXT(s Section, owner Ref, ttl uint32, text string) bool {
	r.Begin(s, owner, wire.TypeTXT, ttl)
	text = text[:min(len(text), 255)]
	r.buf = append(r.buf, byte(len(text)))
	r.buf = append(r.buf, text...)
	return r.End()
}

// SOA is the RDATA of a start of authority record (RFC 1035 3.3.13). Names are in uncompressed wire form.
type SOA struct {
	MName, RName                             []byte
	Serial, Refresh, Retry, Expire, Negative uint32
}

// SOA appends an SOA record that owner, in uncompressed wire form, has.
func (r *Reply) SOA(s Section, owner []byte, ttl uint32, soa *SOA) bool {
	r.BeginName(s, owner, wire.TypeSOA, ttl)
	r.PutName(soa.MName)
	r.PutName(soa.RName)
	for _, v := range [...]uint32{soa.Serial, soa.Refresh, soa.Retry, soa.Expire, soa.Negative} {
		r.PutUint32(v)
	}
	return r.End()
}

// Scratch gives n bytes that belong to the query until it is answered, for a message that is handed to Splice. A second call
// gives the same bytes again.
func (r *Reply) Scratch(n int) []byte {
	if cap(r.scratch) < n {
		r.scratch = make([]byte, n)
	}
	return r.scratch[:n]
}
