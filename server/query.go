package server

import (
	"net/netip"
	"time"

	"github.com/clusterdns/clusterdns/server/wire"
)

// Transport is how a query came.
type Transport uint8

// The transports. Internal is a query that a handler asked of the chain itself (see Rest.Exchange).
const (
	UDP Transport = iota
	TCP
	TLS
	HTTPS
	Internal
)

// String is the name that CoreDNS's logs and metrics use for it: what carries the bytes.
func (t Transport) String() string {
	switch t {
	case UDP:
		return "udp"
	case HTTPS:
		return "https"
	case Internal:
		return "internal"
	}
	return "tcp"
}

// Query is one question and what is known of who asked it. Handlers read its fields; they change the name and type through its methods.
type Query struct {
	// Name is what is looked for now: the question's name, or what a rewrite or a CNAME made of it.
	Name wire.Name
	// Type and Class are what is looked for now.
	Type  wire.Type
	Class wire.Class

	ID    uint16
	Flags wire.Flags // of the query as it came
	EDNS  wire.EDNS  // of the query as it came
	// ToUpstream are EDNS options for the servers that are asked for this query, in wire form: what rewrite has set. The client's own are not
	// passed on. It must outlive the query's handlers.
	ToUpstream []byte

	// Upstream is the server, as its address and port, whose reply the answer is made of; "" if it is made of none, as far as it has come.
	Upstream string

	Client    netip.AddrPort // who asked; without a zone for IPv6 link-local addresses
	Local     netip.AddrPort // the address that was asked; the port alone where the system does not tell
	Transport Transport
	Received  time.Time // when it was read from the socket, with its monotonic part

	Block *Block // the block that the query fell into first
	Shard int    // a small number that differs between workers that run at once: the index for sharded counters

	raw     []byte // the message as it came
	qend    int    // offset behind the question in raw
	table   *table // the routes of the listener it came by
	chain   []Stage
	cursor  int           // index in chain of the handler that is being asked
	ref     Ref           // where Name stands in the reply, or NoRef
	follows uint8         // CNAMEs followed so far
	slab    *slab         // on connections: what the query is part of
	partial bool          // the reply may end with the CNAME that led to Name
	depth   uint8         // how many questions of our own led to this one
	took    time.Duration // see Took; 0 until it is asked for
	shuffle bool
}

// Raw is the message as it came. It aliases the receive buffer.
func (q *Query) Raw() []byte { return q.raw }

// HasQuestion says whether the question could be read. Only Unrouted observers ever see a query without one.
func (q *Query) HasQuestion() bool { return q.qend > 0 }

// Question is the question as it came: name, type, class. It aliases the receive buffer.
func (q *Query) Question() []byte { return q.raw[min(wire.HeaderLen, q.qend):q.qend] }

// QuestionType is the type that the client asked for, whatever Type has become.
func (q *Query) QuestionType() wire.Type {
	if q.qend == 0 {
		return wire.TypeNone
	}
	return wire.Type(uint16(q.raw[q.qend-4])<<8 | uint16(q.raw[q.qend-3]))
}

// QuestionClass is the class that the client asked for.
func (q *Query) QuestionClass() wire.Class {
	if q.qend == 0 {
		return 0
	}
	return wire.Class(uint16(q.raw[q.qend-2])<<8 | uint16(q.raw[q.qend-1]))
}

// Followed says whether a CNAME has been followed, so that Name is no longer what the client asked for and the reply already has records.
func (q *Query) Followed() bool { return q.follows > 0 }

// Took is the time from the receipt of the query to the first call, at least a nanosecond. Observers ask it instead of the clock, so that
// they agree, and reading it costs once.
func (q *Query) Took() time.Duration {
	if q.took == 0 {
		q.took = max(time.Since(q.Received), 1)
	}
	return q.took
}

// Size is the length of the query in bytes.
func (q *Query) Size() int { return len(q.raw) }

// RD says whether the client wants recursion.
func (q *Query) RD() bool { return q.Flags&wire.FlagRD != 0 }

// CD says whether the client has checking disabled (RFC 4035 3.2.2).
func (q *Query) CD() bool { return q.Flags&wire.FlagCD != 0 }

// WantsAD says whether the client wants to know if data is authenticated: it set AD or DO (RFC 6840 5.7).
func (q *Query) WantsAD() bool { return q.Flags&wire.FlagAD != 0 || q.EDNS.DO }

// SetName makes the handlers behind this one look for another name, in uncompressed wire form. Records that they write own that name. The
// question of the reply stays what the client asked.
func (q *Query) SetName(name []byte) error {
	q.ref = NoRef
	return q.Name.Set(name)
}

// SetTarget is called before saying Follow: target, in uncompressed wire form, is what the CNAME just appended leads to,
// and ref is where it stands in the reply (what PutName gave).
func (q *Query) SetTarget(target []byte, ref Ref) error {
	q.ref, q.partial = ref, false
	return q.Name.Set(target)
}

// MayEnd is called after SetTarget by a handler that answers for the owner of the CNAME and not for all the world: where nobody here
// serves the target, the reply ends with the CNAME and NOERROR, and the client looks elsewhere (RFC 1034 4.3.2, 3a).
// Without it that is SERVFAIL.
func (q *Query) MayEnd() { q.partial = true }
