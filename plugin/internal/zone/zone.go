// Package zone holds an authoritative zone (RFC 1034 4.2) and answers from it: what file, auto and secondary have in common. A Zone does
// not change; another version of it is another Zone.
package zone

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/records"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Zone is all records of a zone.
type Zone struct {
	origin wire.Zone
	nodes  map[wire.Canonical]*node
	soa    *set
	negTTL uint32 // of negative answers: the lesser of the SOA's TTL and its MINIMUM (RFC 2308 5)
	serial uint32
	count  int
	signed []owner // the owners of NSEC records in canonical order (RFC 4034 6.1), none in a zone that is not signed
}

// node is a name that exists: one with records, or one between such a name and the apex.
type node struct {
	sets  []set
	cut   bool // NS records below the apex: what is below belongs to another zone
	alias bool // a CNAME
	dname bool
}

// set is an RRset, with the signatures over it.
type set struct {
	typ  wire.Type
	ttl  uint32
	data [][]byte
	sigs [][]byte
}

// owner is a name with an NSEC record under a key that sorts in canonical order.
type owner struct {
	key  string
	name wire.Canonical
	nsec *set
}

var (
	errNoSOA  = errors.New("the zone has no SOA record at its apex")
	errTwoSOA = errors.New("the zone has more than one SOA record")
)

// Parse reads a zone in the form of RFC 1035 5. name is that of the file, for messages and for $INCLUDE; with "" that is not allowed.
func Parse(from io.Reader, origin wire.Zone, name string) (*Zone, error) {
	return parse(from, origin, name, whole())
}

func parse(from io.Reader, origin wire.Zone, name string, left bounds) (*Zone, error) {
	files, all := &includes{left}, &List{left: left}
	p := dns.NewZoneParser(files.meter(from), origin.String(), filepath.ToSlash(name))
	p.SetIncludeAllowed(name != "")
	p.SetIncludeFS(files)
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		rec, err := records.From(rr)
		if err == nil {
			err = all.Add(rec)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.ReplaceAll(rr.String(), "\t", " "), err)
		}
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return New(origin, all.Records())
}

// New makes a zone of records. Those outside the zone, and those of NSEC3, which is not supported, are left out. The SOA record
// may stand twice, as it does in a transfer.
func New(origin wire.Zone, all []server.Record) (*Zone, error) {
	z := &Zone{origin: origin, nodes: map[wire.Canonical]*node{origin.Name(): {}}}
	for i := range all {
		rr := &all[i]
		name := bytes.Clone(rr.Owner)
		wire.Fold(name)
		c := wire.Canonical(name)
		if !origin.Contains(c) || rr.Type == wire.TypeNSEC3 || rr.Class != wire.ClassIN {
			continue
		}
		if err := z.add(c, rr); err != nil {
			return nil, fmt.Errorf("%s %s: %w", c, rr.Type, err)
		}
	}
	return z, z.finish()
}

func (z *Zone) add(c wire.Canonical, rr *server.Record) error {
	n := z.node(c)
	t := rr.Type
	sig := t == wire.TypeRRSIG && len(rr.Data) > 2
	if sig {
		t = wire.Type(binary.BigEndian.Uint16(rr.Data))
	}
	s := n.find(t)
	if s == nil {
		n.sets = append(n.sets, set{typ: t, ttl: rr.TTL})
		s = &n.sets[len(n.sets)-1]
	}
	to := &s.data
	if sig {
		to = &s.sigs
	}
	if slices.ContainsFunc(*to, func(b []byte) bool { return bytes.Equal(b, rr.Data) }) {
		return nil
	}
	if len(*to) >= maxSet {
		return errSet
	}
	*to = append(*to, rr.Data)
	s.ttl = min(s.ttl, rr.TTL) // the records of a set have one TTL (RFC 2181 5.2)
	z.count++
	return nil
}

// node finds or makes the node of a name, and those between it and the apex.
func (z *Zone) node(c wire.Canonical) *node {
	n := z.nodes[c]
	if n == nil {
		n = &node{}
		z.nodes[c] = n
		z.node(c[int(c[0])+1:])
	}
	return n
}

// finish derives what answering needs.
func (z *Zone) finish() error {
	apex := z.nodes[z.origin.Name()]
	z.soa = apex.find(wire.TypeSOA)
	switch {
	case z.soa == nil || len(z.soa.data) == 0:
		return errNoSOA
	case len(z.soa.data) > 1:
		return errTwoSOA
	}
	numbers := z.soa.data[0]
	if len(numbers) < 22 {
		return errNoSOA
	}
	numbers = numbers[len(numbers)-20:]
	z.serial = binary.BigEndian.Uint32(numbers)
	z.negTTL = min(z.soa.ttl, binary.BigEndian.Uint32(numbers[16:]))
	for c, n := range z.nodes {
		n.cut = n != apex && n.has(wire.TypeNS)
		n.alias, n.dname = n.has(wire.TypeCNAME), n.has(wire.TypeDNAME)
		if n.has(wire.TypeNSEC) {
			z.signed = append(z.signed, owner{sortKey(c), c, n.find(wire.TypeNSEC)})
		}
	}
	slices.SortFunc(z.signed, func(a, b owner) int { return strings.Compare(a.key, b.key) })
	return nil
}

func (n *node) find(t wire.Type) *set {
	for i := range n.sets {
		if n.sets[i].typ == t {
			return &n.sets[i]
		}
	}
	return nil
}

func (n *node) has(t wire.Type) bool {
	s := n.find(t)
	return s != nil && len(s.data) > 0
}

// sortKey sorts as text like names do in canonical order: labels from the right, each ended by a zero.
func sortKey(c wire.Canonical) string {
	var labels []string
	for i := 0; c[i] != 0; i += int(c[i]) + 1 {
		labels = append(labels, string(c[i+1:i+1+int(c[i])]))
	}
	slices.Reverse(labels)
	var b strings.Builder
	for _, l := range labels {
		for _, ch := range []byte(l) {
			if ch < 2 {
				b.WriteByte(1)
				ch++
			}
			b.WriteByte(ch)
		}
		b.WriteByte(0)
	}
	return b.String()
}

// Origin is the apex.
func (z *Zone) Origin() wire.Zone { return z.origin }

// Serial is that of the SOA record.
func (z *Zone) Serial() uint32 { return z.serial }

// Len is how many records the zone has.
func (z *Zone) Len() int { return z.count }

// Timers are those of the SOA record (RFC 1035 3.3.13), in seconds.
func (z *Zone) Timers() (refresh, retry, expire uint32) {
	d := z.soa.data[0]
	d = d[len(d)-16:]
	return binary.BigEndian.Uint32(d), binary.BigEndian.Uint32(d[4:]), binary.BigEndian.Uint32(d[8:])
}

// SOA is the zone's SOA record.
func (z *Zone) SOA() server.Record {
	return server.Record{Owner: []byte(z.origin.Name()), Type: wire.TypeSOA, Class: wire.ClassIN, TTL: z.soa.ttl, Data: z.soa.data[0]}
}

// Records are all records, the SOA record first and once.
func (z *Zone) Records() iter.Seq[server.Record] {
	return func(yield func(server.Record) bool) {
		if !yield(z.SOA()) {
			return
		}
		for c, n := range z.nodes {
			for i := range n.sets {
				if !n.sets[i].each(c, yield) {
					return
				}
			}
		}
	}
}

// each gives the records of a set but for an SOA record.
func (s *set) each(c wire.Canonical, yield func(server.Record) bool) bool {
	rr := server.Record{Owner: []byte(c), Type: s.typ, Class: wire.ClassIN, TTL: s.ttl}
	for _, d := range s.data {
		if rr.Data = d; s.typ != wire.TypeSOA && !yield(rr) {
			return false
		}
	}
	rr.Type = wire.TypeRRSIG
	for _, d := range s.sigs {
		if rr.Data = d; !yield(rr) {
			return false
		}
	}
	return true
}
