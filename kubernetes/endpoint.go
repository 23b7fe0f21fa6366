package kubernetes

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// selection is the endpoints of a Service that a name asks for.
type selection struct {
	eps    *endpoints
	byHost []uint32 // nil: the indexes from lo up to but without hi; else those of byHost at these places
	lo, hi int
	ports  portQuery
	zone   []byte // wire labels; nil for any
}

func (s *selection) len() int { return s.hi - s.lo }

// index is the k-th of the indexes in question.
func (s *selection) index(k int) int {
	if s.byHost != nil {
		return int(s.byHost[s.lo+k])
	}
	return s.lo + k
}

// takes says whether endpoint i is asked for.
func (s *selection) takes(i int) bool {
	return (s.zone == nil || string(s.zone) == s.eps.zone(i)) && s.ports.any(s.eps.portsOf(i))
}

// answerEndpoint answers ENDPOINT.SERVICE.NAMESPACE.svc, and _PROTOCOL above named ports.
func (a *asked) answerEndpoint(e *entry) server.Verdict {
	label := a.label(0)
	if e.eps != nil {
		sel := selection{eps: e.eps}
		if sel.lo, sel.hi = e.eps.named(label); sel.len() > 0 {
			sel.byHost = e.eps.byHost
			return a.answerEndpoints(&sel, e)
		}
		if addr, ok := parseDashed(label); ok && dashedIs(addr, label) {
			if sel.lo, sel.hi = e.eps.unnamed(addr); sel.len() > 0 {
				return a.answerEndpoints(&sel, e)
			}
		}
	}
	if label[0] == '_' && a.hasProtocol(e, label[1:]) {
		return a.nodata()
	}
	return a.absent(whyNoEndpoint)
}

// hasProtocol says whether names _PORT._PROTOCOL exist below a Service, or with zonal those of zones.
func (a *asked) hasProtocol(e *entry, proto []byte) bool {
	if e.svc.form == formClusterIP {
		return named(e.svc.ports, proto)
	}
	if a.k.opts.Zonal && string(proto) == "zone" {
		return true
	}
	if e.eps != nil {
		for _, g := range e.eps.groups {
			if named(g, proto) {
				return true
			}
		}
	}
	return false
}

// unnamed gives the indexes of the endpoints that are named after an address: equal addresses are sorted by host, the empty one first.
func (e *endpoints) unnamed(addr netip.Addr) (lo, hi int) {
	lo, hi = e.at(addr)
	end := lo
	for end < hi && e.host(end) == "" {
		end++
	}
	return lo, end
}

// answerEndpoints answers with endpoints.
func (a *asked) answerEndpoints(s *selection, e *entry) server.Verdict {
	v4, v6 := s.families()
	switch {
	case !v4 && !v6:
		return a.absent(whyNoPort)
	case a.q.Type == wire.TypeSRV:
		return a.endpointSRV(s, e)
	case v4 && a.q.Type == wire.TypeA, v6 && a.q.Type == wire.TypeAAAA:
		a.endpointAddrs(s)
		return a.done()
	}
	return a.nodata()
}

// families says which families of addresses the endpoints asked for have.
func (s *selection) families() (v4, v6 bool) {
	for k := range s.len() {
		if i := s.index(k); s.takes(i) {
			v4 = v4 || i < len(s.eps.v4)
			v6 = v6 || i >= len(s.eps.v4)
		}
	}
	return v4, v6
}

// endpointAddrs answers A or AAAA with each address once.
func (a *asked) endpointAddrs(s *selection) {
	v4 := a.q.Type == wire.TypeA
	for _, k := range a.r.Order(s.len()) {
		i := s.index(int(k))
		if i < len(s.eps.v4) != v4 || !s.takes(i) || s.repeatsAddr(int(k)) {
			continue
		}
		if !a.r.Addr(server.Answer, server.Owner, a.k.opts.TTL, s.eps.addr(i)) {
			return
		}
	}
}

// repeatsAddr says whether an endpoint before the k-th has its address and is asked for. Equal addresses stand side by side.
func (s *selection) repeatsAddr(k int) bool {
	addr := s.eps.addr(s.index(k))
	for k--; k >= 0 && s.eps.addr(s.index(k)) == addr; k-- {
		if s.takes(s.index(k)) {
			return true
		}
	}
	return false
}

// endpointSRV answers SRV with one record for each endpoint's name and port number, and their addresses.
func (a *asked) endpointSRV(s *selection, e *entry) server.Verdict {
	records := s.records()
	if records == 0 {
		return a.nodata()
	}
	r, n := a.r, s.len()
	order, weight := r.Order(n), weightOf(records)
	targets := r.Scratch(2 * n) // where the name of each endpoint stands in the reply, at the first place with that name
	clear(targets)
	for _, k := range order {
		i := s.index(int(k))
		if !s.takes(i) {
			continue
		}
		ports, target := s.eps.portsOf(i), targets[2*s.first(int(k)):]
		for p := range ports {
			if !s.ports.matches(&ports[p]) || s.ports.repeats(ports, p) || s.repeatsPort(int(k), ports[p].number) {
				continue
			}
			a.beginSRV(weight, ports[p].number)
			if at := binary.BigEndian.Uint16(target); at != 0 {
				r.PutLabels(nil, server.Ref(at))
			} else {
				binary.BigEndian.PutUint16(target, uint16(min(r.Len(), 0xFFFE)))
				a.putEndpoint(s.eps, e, i)
			}
			if !r.End() {
				return a.done()
			}
		}
	}
	a.glue(s, order, targets)
	return a.done()
}

// glue appends the addresses of the SRV records' targets.
func (a *asked) glue(s *selection, order []uint32, targets []byte) {
	for _, k := range order {
		i := s.index(int(k))
		if !s.takes(i) || s.repeatsEndpoint(int(k)) {
			continue
		}
		if at := binary.BigEndian.Uint16(targets[2*s.first(int(k)):]); at != 0 {
			a.r.Addr(server.Additional, server.Ref(at), a.k.opts.TTL, s.eps.addr(i))
		}
	}
}

// records is how many SRV records there would be if every endpoint had a name of its own: what the weight is divided by.
func (s *selection) records() int {
	n := 0
	for k := range s.len() {
		i := s.index(k)
		if !s.takes(i) {
			continue
		}
		ports := s.eps.portsOf(i)
		for p := range ports {
			if s.ports.matches(&ports[p]) && !s.counted(k, &ports[p]) {
				n++
			}
		}
	}
	return n
}

// counted says whether an endpoint before the k-th with the same address and name has the same port.
func (s *selection) counted(k int, p *port) bool {
	for m := k - 1; m >= 0 && s.twins(m, k); m-- {
		if i := s.index(m); s.takes(i) && slices.Contains(s.eps.portsOf(i), *p) {
			return true
		}
	}
	return false
}

// repeatsEndpoint says whether an endpoint before the k-th has the same name and address.
func (s *selection) repeatsEndpoint(k int) bool {
	for m := k - 1; m >= 0 && s.twins(m, k); m-- {
		if s.takes(s.index(m)) {
			return true
		}
	}
	return false
}

// twins says whether two endpoints have the same address and name. All that do stand side by side.
func (s *selection) twins(m, k int) bool {
	i, j := s.index(m), s.index(k)
	return s.eps.addr(i) == s.eps.addr(j) && s.eps.host(i) == s.eps.host(j)
}

// repeatsPort says whether an endpoint before the k-th with the same name has a port of that number that is asked for. There may be thousands with the
// name, as the Pods of a Deployment that sets hostname; most often the first has the port.
func (s *selection) repeatsPort(k int, number uint16) bool {
	found := false
	s.before(k, func(m int) bool {
		if i := s.index(m); s.takes(i) {
			for _, o := range s.eps.portsOf(i) {
				found = found || o.number == number && s.ports.matches(&o)
			}
		}
		return !found
	})
	return found
}

// before calls f with the places before k of the endpoints that have the same name as the k-th, until f says false.
func (s *selection) before(k int, f func(m int) bool) {
	if s.byHost == nil && s.eps.host(s.index(k)) != "" { // the selection is all endpoints
		host := s.eps.host(k)
		for _, m := range s.eps.byHost[s.eps.firstHost(host):] {
			if int(m) >= k || !f(int(m)) {
				return
			}
		}
		return
	}
	for m := s.first(k); m < k && f(m); m++ {
	}
}

// first is the first place with the name of the k-th.
func (s *selection) first(k int) int {
	host := s.eps.host(s.index(k))
	switch {
	case host == "" && s.eps.group == nil: // no two are named after the same address
		return k
	case host == "":
		lo, _ := s.eps.at(s.eps.addr(s.index(k)))
		return max(lo, s.lo) - s.lo
	case s.byHost != nil: // all of them have the name
		return 0
	}
	return int(s.eps.byHost[s.eps.firstHost(host)]) // the selection is all endpoints
}

// firstHost gives where in byHost the endpoints with these wire labels begin.
func (e *endpoints) firstHost(host string) int {
	lo, _ := slices.BinarySearchFunc(e.byHost, host, func(i uint32, host string) int { return compareWire(e.hosts[i], host) })
	return lo
}

// putEndpoint writes the name of endpoint i into RDATA.
func (a *asked) putEndpoint(eps *endpoints, e *entry, i int) {
	if host := eps.host(i); host != "" {
		a.putService(e, host)
		return
	}
	var buf [64]byte
	a.r.Put(appendDashed(buf[:0], eps.addr(i)))
	a.putService(e, "")
}

// appendDashed appends the label, length byte included, that an address is named by: its text with dashes for dots and colons.
func appendDashed(b []byte, addr netip.Addr) []byte {
	at := len(b)
	b = addr.AppendTo(append(b, 0))
	for i := at + 1; i < len(b); i++ {
		if b[i] == '.' || b[i] == ':' {
			b[i] = '-'
		}
	}
	b[at] = byte(len(b) - at - 1)
	return b
}

// dashedIs says whether a label is the very one that an address is named by.
func dashedIs(addr netip.Addr, label []byte) bool {
	var buf [64]byte
	return string(appendDashed(buf[:0], addr)[1:]) == string(label)
}

// parseDashed reads an address with dashes in place of dots or colons, in any valid spelling: three dashes, none of them together, make
// an IPv4 address, as in CoreDNS. An IPv4 address in IPv6 form is IPv4.
func parseDashed(label []byte) (netip.Addr, bool) {
	dashes, double := 0, false
	for i, c := range label {
		if c == '-' {
			dashes++
			double = double || i > 0 && label[i-1] == '-'
		}
	}
	if dashes == 3 && !double {
		return parseDashed4(label)
	}
	return parseDashed6(label)
}

func parseDashed4(label []byte) (netip.Addr, bool) {
	var b [4]byte
	for i := range b {
		end := bytes.IndexByte(label, '-')
		if end < 0 {
			end = len(label)
		}
		v, ok := octet(label[:end])
		if !ok {
			return netip.Addr{}, false
		}
		b[i], label = v, label[min(end+1, len(label)):]
	}
	return netip.AddrFrom4(b), true
}

// parseDashed6 reads RFC 4291 2.2, forms 1 and 2.
func parseDashed6(label []byte) (netip.Addr, bool) {
	var b, tail [16]byte
	gap := bytes.Index(label, []byte("--"))
	if gap < 0 {
		n, ok := groups(b[:], label)
		return netip.AddrFrom16(b).Unmap(), ok && n == len(b)
	}
	n, ok := groups(b[:], label[:gap])
	m, okTail := groups(tail[:], label[gap+2:])
	if !ok || !okTail || n+m > len(b)-2 { // "::" stands for at least one group
		return netip.Addr{}, false
	}
	copy(b[len(b)-m:], tail[:m])
	return netip.AddrFrom16(b).Unmap(), true
}

// groups reads groups of hexadecimal digits with a dash between them into to and says how many bytes they make. There may be none.
func groups(to, label []byte) (n int, ok bool) {
	for len(label) > 0 {
		v, digits := group(label)
		if digits == 0 || n == len(to) {
			return 0, false
		}
		to[n], to[n+1] = byte(v>>8), byte(v)
		n, label = n+2, label[digits:]
		if len(label) == 0 {
			break
		}
		if label[0] != '-' || len(label) == 1 {
			return 0, false
		}
		label = label[1:]
	}
	return n, true
}

// group reads one to four hexadecimal digits and says how many there were; 0 if there are none or more.
func group(label []byte) (v uint16, digits int) {
	for digits < len(label) {
		d, ok := nibble(label[digits : digits+1])
		if !ok {
			break
		}
		if digits++; digits > 4 {
			return 0, 0
		}
		v = v<<4 | uint16(d)
	}
	return v, digits
}
