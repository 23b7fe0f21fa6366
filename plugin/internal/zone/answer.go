package zone

import (
	"slices"
	"strings"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// rcodeYXDomain is for names that a DNAME record makes too long (RFC 6672 2.2).
const rcodeYXDomain wire.RCode = 6

// answer is one question to a zone.
type answer struct {
	z  *Zone
	r  *server.Reply
	q  *server.Query
	do bool // the client wants signatures
}

// Answer answers a question for a name in the zone (RFC 1034 4.3.2, RFC 4592 for wildcards). fall says that a name that does not exist
// is not for this handler: then it says Pass.
func (z *Zone) Answer(r *server.Reply, q *server.Query, fall bool) server.Verdict {
	labels, ok := q.Name.Cut(z.origin)
	if !ok {
		return server.Pass
	}
	a := answer{z, r, q, q.EDNS.DO && len(z.signed) > 0}
	for i := labels; ; i-- {
		n := z.nodes[wire.Canonical(q.Name.Suffix(i))]
		switch {
		case n == nil:
			return a.missing(i+1, fall)
		case n.cut && !(i == 0 && q.Type == wire.TypeDS): // DS records stand above the cut (RFC 4035 3.1.4.1)
			return a.referral(i, n)
		case i == 0:
			return a.found(n, nil)
		case n.dname:
			return a.redirect(i, n)
		}
	}
}

// put writes a set, in the order that loadbalance wants, with its signatures for who wants them.
func (a *answer) put(s server.Section, owner []byte, x *set, ttl uint32) {
	rr := server.Record{Section: s, Owner: owner, Type: x.typ, Class: wire.ClassIN, TTL: ttl}
	if x.typ == wire.TypeA || x.typ == wire.TypeAAAA {
		for _, i := range a.r.Order(len(x.data)) {
			rr.Data = x.data[i]
			a.r.Record(&rr)
		}
	} else {
		for _, rr.Data = range x.data {
			a.r.Record(&rr)
		}
	}
	if !a.do {
		return
	}
	rr.Type = wire.TypeRRSIG
	for _, rr.Data = range x.sigs {
		a.r.Record(&rr)
	}
}

// found answers from a node. wild is the name of the wildcard that it is, whose records the name has; nil if it is none.
func (a *answer) found(n *node, wild []byte) server.Verdict {
	a.r.SetAA()
	name := a.q.Name.Bytes()
	if n.alias && !a.wantsAlias() {
		s := n.find(wire.TypeCNAME)
		a.put(server.Answer, name, s, s.ttl)
		return a.follow(s.data[0])
	}
	before := a.r.Count(server.Answer)
	for i := range n.sets {
		if s := &n.sets[i]; a.wants(s) {
			a.put(server.Answer, name, s, s.ttl)
			if a.q.Type == wire.TypeANY && a.q.Transport == server.UDP {
				break // RFC 8482 4.1: one set is enough for an address that may be forged
			}
		}
	}
	if a.r.Count(server.Answer) == before {
		return a.empty(n, wild)
	}
	a.servers(n)
	if wild != nil && a.do {
		a.deny(string(a.q.Name.Canonical()))
	}
	if s := n.find(a.q.Type); s != nil {
		a.glue(s)
	}
	return server.Done
}

// wantsAlias says whether the question is for what a name with a CNAME has itself.
func (a *answer) wantsAlias() bool {
	return a.q.Type == wire.TypeCNAME || a.q.Type == wire.TypeANY || a.q.Type == wire.TypeNSEC
}

func (a *answer) wants(s *set) bool {
	return len(s.data) > 0 && (s.typ == a.q.Type || a.q.Type == wire.TypeANY && s.typ != wire.TypeNSEC)
}

// servers names the zone's servers along with a positive answer, unless that is what it consists of, or they do not fit: nobody asked for them, so they are
// no reason to say that the reply is truncated (RFC 2181 9).
func (a *answer) servers(n *node) {
	apex := a.z.nodes[a.z.origin.Name()]
	ns := apex.find(wire.TypeNS)
	if ns == nil || n == apex && a.q.Type == wire.TypeNS || a.r.Truncated() {
		return
	}
	before := a.r.Mark()
	if a.put(server.Authority, []byte(a.z.origin.Name()), ns, ns.ttl); a.r.Truncated() {
		a.r.Rewind(before)
	}
}

// follow goes on with the target of a CNAME, here or elsewhere.
func (a *answer) follow(target []byte) server.Verdict {
	if err := a.q.SetTarget(target, server.NoRef); err != nil {
		return a.r.Fail(err)
	}
	a.q.MayEnd()
	return server.Follow
}

// negative writes the SOA record of a negative answer.
func (a *answer) negative() {
	a.put(server.Authority, []byte(a.z.origin.Name()), a.z.soa, a.z.negTTL)
}

// empty says that the name exists without the type that is asked for. Of a wildcard it takes two proofs: that no name stands before it, and that it does not
// have the type (RFC 4035 3.1.3.4).
func (a *answer) empty(n *node, wild []byte) server.Verdict {
	a.negative()
	if !a.do {
		return server.Done
	}
	name := a.q.Name.Canonical()
	switch s := n.find(wire.TypeNSEC); {
	case wild != nil:
		a.deny(string(name), string(wild))
	case s != nil:
		a.put(server.Authority, []byte(name), s, s.ttl)
	default:
		a.deny(string(name))
	}
	return server.Done
}

// missing answers for a name that is not there: by the wildcard under its closest encloser, label i and all behind it, or by NXDOMAIN.
func (a *answer) missing(i int, fall bool) server.Verdict {
	var buf [wire.MaxName + 2]byte
	wild := append(append(buf[:0], 1, '*'), a.q.Name.Suffix(i)...)
	if n := a.z.nodes[wire.Canonical(wild)]; n != nil {
		return a.found(n, wild)
	}
	if fall {
		return server.Pass
	}
	a.r.SetAA()
	a.r.SetRCode(wire.RCodeNXDomain)
	a.negative()
	if a.do {
		a.deny(string(a.q.Name.Canonical()), string(wild))
	}
	return server.Done
}

// deny writes the NSEC records that show that names do not exist (RFC 4035 3.1.3.2): those of the names before them.
func (a *answer) deny(names ...string) {
	var seen []*set
	for _, name := range names {
		key := sortKey(wire.Canonical(name))
		i, exact := slices.BinarySearchFunc(a.z.signed, key, func(o owner, key string) int { return strings.Compare(o.key, key) })
		if !exact {
			i = (i + len(a.z.signed) - 1) % len(a.z.signed)
		}
		if o := a.z.signed[i]; !slices.Contains(seen, o.nsec) {
			seen = append(seen, o.nsec)
			a.put(server.Authority, []byte(o.name), o.nsec, o.nsec.ttl)
		}
	}
}

// referral names the servers of the zone that begins at label i.
func (a *answer) referral(i int, n *node) server.Verdict {
	owner := a.q.Name.Bytes()[a.q.Name.Offset(i):]
	ns := n.find(wire.TypeNS)
	do := a.do
	a.do = false // the NS records above a cut are not signed (RFC 4035 2.2)
	a.put(server.Authority, owner, ns, ns.ttl)
	if a.do = do; do {
		if s := n.find(wire.TypeDS); s != nil {
			a.put(server.Authority, owner, s, s.ttl)
		} else if s := n.find(wire.TypeNSEC); s != nil {
			a.put(server.Authority, owner, s, s.ttl)
		}
	}
	a.glue(ns)
	return server.Done
}

// redirect carries out the DNAME record at label i (RFC 6672 3.2).
func (a *answer) redirect(i int, n *node) server.Verdict {
	s := n.find(wire.TypeDNAME)
	name := a.q.Name.Bytes()
	at := a.q.Name.Offset(i)
	a.r.SetAA()
	a.put(server.Answer, name[at:], s, s.ttl)
	if at+len(s.data[0]) > wire.MaxName {
		a.r.SetRCode(rcodeYXDomain)
		return server.Done
	}
	var buf [2 * wire.MaxName]byte
	target := append(append(buf[:0], name[:at]...), s.data[0]...)
	a.r.CNAME(server.Owner, s.ttl, target)
	return a.follow(target)
}

// glue adds the addresses of the targets of NS, MX and SRV records as far as they are in the zone.
func (a *answer) glue(s *set) {
	skip := 0
	switch s.typ {
	case wire.TypeNS:
	case wire.TypeMX:
		skip = 2
	case wire.TypeSRV:
		skip = 6
	default:
		return
	}
	for _, d := range s.data {
		if len(d) <= skip {
			continue
		}
		var buf [wire.MaxName]byte
		name := buf[:copy(buf[:], d[skip:])]
		wire.Fold(name)
		n := a.z.nodes[wire.Canonical(name)]
		if n == nil {
			continue
		}
		for _, t := range [...]wire.Type{wire.TypeA, wire.TypeAAAA} {
			if x := n.find(t); x != nil {
				a.put(server.Additional, d[skip:], x, x.ttl)
			}
		}
	}
}
