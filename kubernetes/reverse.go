package kubernetes

import (
	"net/netip"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// isArpa says whether a name is in a tree of reverse names.
func isArpa(n *wire.Name) bool {
	l := n.Labels()
	if l < 2 || string(n.Label(l-1)) != "arpa" {
		return false
	}
	t := n.Label(l - 2)
	return string(t) == "in-addr" || string(t) == "ip6"
}

// answerReverse answers names of addresses with the Services or endpoints that have them.
func (a *asked) answerReverse() server.Verdict {
	if a.q.Type == wire.TypePTR {
		if addr, ok := reverseAddr(&a.q.Name); ok && a.pointers(addr) {
			return a.done()
		}
	}
	return a.absent(whyNoAddress)
}

// owner is the Service that has an address of its own. No cluster gives it to two; if manifests do, it is the first by name.
func (a *asked) owner(addr netip.Addr, b *[16]byte) (owner *entry) {
	for p := a.k.byAddr.find(b); ; {
		c := p.next()
		if c == nil {
			return owner
		}
		if e := a.visible(c); e != nil && e.svc.has(addr) && (owner == nil || e.key < owner.key) {
			owner = e
		}
	}
}

// pointers appends the PTR records of an address and says whether there are any. A Service that has it is the one answer; otherwise every
// endpoint is.
func (a *asked) pointers(addr netip.Addr) bool {
	b := addr.As16()
	if e := a.owner(addr, &b); e != nil {
		a.ptr(e, "", netip.Addr{})
		return true
	}
	any := false
	for p := a.k.byAddr.find(&b); ; {
		c := p.next()
		if c == nil {
			return any
		}
		e := a.visible(c)
		if e == nil || e.eps == nil {
			continue
		}
		lo, hi := e.eps.at(addr)
		for i := lo; i < hi; i++ {
			if i == lo || e.eps.host(i) != e.eps.host(i-1) {
				a.ptr(e, e.eps.host(i), addr)
				any = true
			}
		}
	}
}

// visible is the entry of a cell for PTR records, or nil. CoreDNS holds them to namespaces, but not to namespace_labels.
func (a *asked) visible(c *cell) *entry {
	e := c.entry.Load()
	if e == nil || len(a.k.opts.Namespaces) > 0 && !e.space.exists.Load() {
		return nil
	}
	return e
}

// has says whether an address is one of the Service's own.
func (s *svcData) has(addr netip.Addr) bool {
	if addr.Is4() {
		b := addr.As4()
		for i := range s.v4 {
			if s.v4[i] == b {
				return true
			}
		}
		return false
	}
	b := addr.As16()
	for i := range s.v6 {
		if s.v6[i] == b {
			return true
		}
	}
	return false
}

// ptr appends a PTR record to a Service, or to the endpoint of it with that host, or with that address if it has no host. Nothing in the
// question ends like the target, so that only further targets are worth compressing.
func (a *asked) ptr(e *entry, host string, addr netip.Addr) {
	var buf [64]byte
	dashed := buf[:0]
	if host == "" && addr.IsValid() {
		dashed = appendDashed(dashed, addr)
	}
	zone := string(a.k.primary.Name())
	if len(host)+len(dashed)+len(e.key)+len(svcLabel)+len(zone) > wire.MaxName {
		return
	}
	r := a.r
	r.Begin(server.Answer, server.Owner, wire.TypePTR, a.k.opts.TTL)
	r.Put(dashed)
	r.PutString(host)
	r.PutString(e.key)
	if a.tail != server.NoRef {
		r.PutLabels(nil, a.tail)
	} else {
		a.tail = server.Ref(r.Len())
		r.PutString(svcLabel)
		r.PutString(zone)
	}
	r.End()
}

// reverseAddr is the address that a name of in-addr.arpa (RFC 1035 3.5) or ip6.arpa (RFC 3596 2.5) stands for.
func reverseAddr(n *wire.Name) (netip.Addr, bool) {
	if n.Labels() == 6 && string(n.Label(4)) == "in-addr" {
		var b [4]byte
		for i := range b {
			v, ok := octet(n.Label(3 - i))
			if !ok {
				return netip.Addr{}, false
			}
			b[i] = v
		}
		return netip.AddrFrom4(b), true
	}
	if n.Labels() != 34 || string(n.Label(32)) != "ip6" {
		return netip.Addr{}, false
	}
	var b [16]byte
	for i := range 32 {
		v, ok := nibble(n.Label(31 - i))
		if !ok {
			return netip.Addr{}, false
		}
		b[i/2] = b[i/2]<<4 | v
	}
	return netip.AddrFrom16(b).Unmap(), true
}

// octet reads a number up to 255 without leading zeros.
func octet(l []byte) (byte, bool) {
	if len(l) == 0 || len(l) > 3 || l[0] == '0' && len(l) > 1 {
		return 0, false
	}
	v := 0
	for _, c := range l {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int(c-'0')
	}
	return byte(v), v <= 255
}

func nibble(l []byte) (byte, bool) {
	switch {
	case len(l) != 1:
		return 0, false
	case l[0] >= '0' && l[0] <= '9':
		return l[0] - '0', true
	case l[0] >= 'a' && l[0] <= 'f':
		return l[0] - 'a' + 10, true
	}
	return 0, false
}
