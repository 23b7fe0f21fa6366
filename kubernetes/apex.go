package kubernetes

import (
	"net"
	"net/netip"
	"slices"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// answerApex answers the zone's own name.
func (a *asked) answerApex(_ wire.Zone) server.Verdict {
	switch a.q.Type {
	case wire.TypeSOA:
		a.soa(server.Answer)
		return a.done()
	case wire.TypeNS:
		return a.answerNS()
	case wire.TypeAXFR, wire.TypeIXFR:
		a.r.SetRCode(wire.RCodeRefused)
		return server.Done
	case wire.TypeTXT:
		return a.missing(whyNoSuchName)
	}
	return a.nodata()
}

// nameserver is a name under which this server is reached. Without an entry it is ns.dns.ZONE.
type nameserver struct {
	e     *entry
	host  string // wire labels of an endpoint of a headless Service
	addrs []netip.Addr
}

// nameservers finds the Services whose endpoints this server's own addresses are. A server that is in no Service is its addresses alone.
// These questions are rare, so that it may allocate.
func (k *Kubernetes) nameservers() []nameserver {
	local := interfaceAddrs
	if k.local != nil {
		local = k.local
	}
	addrs := local()
	if others := slices.DeleteFunc(slices.Clone(addrs), netip.Addr.IsLoopback); len(others) > 0 {
		addrs = others // nobody else could use the loopback address
	}
	var out []nameserver
	for _, addr := range addrs {
		b := addr.Unmap().As16()
		for p := k.byAddr.find(&b); ; {
			c := p.next()
			if c == nil {
				break
			}
			e := c.entry.Load()
			if e == nil || e.eps == nil || slices.ContainsFunc(out, func(n nameserver) bool { return n.e.key == e.key }) {
				continue
			}
			if lo, hi := e.eps.at(addr.Unmap()); lo < hi {
				out = append(out, e.nameservers()...)
			}
		}
	}
	if len(out) == 0 {
		return []nameserver{{addrs: addrs}}
	}
	return out
}

// nameservers are the names of a Service that serves DNS: its own, or those of its endpoints if it is headless.
func (e *entry) nameservers() []nameserver {
	if e.svc.form != formHeadless {
		n := nameserver{e: e}
		for _, b := range e.v4 {
			n.addrs = append(n.addrs, netip.AddrFrom4(b))
		}
		for _, b := range e.v6 {
			n.addrs = append(n.addrs, netip.AddrFrom16(b))
		}
		return []nameserver{n}
	}
	var out []nameserver
	for i := range e.eps.len() {
		addr := e.eps.addr(i)
		host := e.eps.host(i)
		if host == "" {
			host = string(appendDashed(nil, addr))
		}
		if j := slices.IndexFunc(out, func(n nameserver) bool { return n.host == host }); j >= 0 {
			out[j].addrs = append(out[j].addrs, addr)
			continue
		}
		out = append(out, nameserver{e: e, host: host, addrs: []netip.Addr{addr}})
	}
	return out
}

// answerNS answers NS at the apex, and the addresses of ns.dns.ZONE, which the SOA record names.
func (a *asked) answerNS() server.Verdict {
	r, ttl := a.r, a.k.opts.TTL
	servers := a.k.nameservers()
	if a.zone > 0 {
		return a.defaultNS(servers)
	}
	refs := make([]server.Ref, len(servers))
	for i, n := range servers {
		r.Begin(server.Answer, server.Owner, wire.TypeNS, ttl)
		refs[i] = server.Ref(r.Len())
		if n.e == nil {
			r.PutString("\x02ns\x03dns")
			a.putZone()
		} else {
			a.putService(n.e, n.host)
		}
		if !r.End() {
			return a.done()
		}
	}
	for i, n := range servers {
		for _, addr := range n.addrs {
			r.Addr(server.Additional, refs[i], ttl, addr)
		}
	}
	return a.done()
}

// defaultNS answers ns.dns.ZONE.
func (a *asked) defaultNS(servers []nameserver) server.Verdict {
	var v4 [][4]byte
	var v6 [][16]byte
	for _, n := range servers {
		for _, addr := range n.addrs {
			if addr.Is4() && !slices.Contains(v4, addr.As4()) {
				v4 = append(v4, addr.As4())
			} else if addr.Is6() && !slices.Contains(v6, addr.As16()) {
				v6 = append(v6, addr.As16())
			}
		}
	}
	return a.addresses(v4, v6)
}

// interfaceAddrs are the addresses of this machine or Pod that others may reach. Like CoreDNS it includes link-local ones.
func interfaceAddrs() []netip.Addr {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []netip.Addr
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if addr, ok := netip.AddrFromSlice(n.IP); ok {
			out = append(out, addr.Unmap())
		}
	}
	return out
}
