package k8sexternal

import (
	"net/netip"
	"strings"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// service answers for NAMESPACE, SERVICE.NAMESPACE, ENDPOINT.SERVICE.NAMESPACE and _PORT._PROTOCOL.SERVICE.NAMESPACE.
func (a *asked) service() server.Verdict {
	name := &a.q.Name
	namespace := string(name.Label(a.labels - 1))
	if a.labels > 4 || !a.cluster.HasNamespace(namespace) {
		return a.nothing(false)
	}
	if a.labels == 1 {
		return a.nothing(true)
	}
	s, ok := a.cluster.ExternalService(namespace, string(name.Label(a.labels-2)))
	if !ok {
		return a.nothing(false)
	}
	t := a.targets(&s)
	if len(t) == 0 {
		return a.nothing(a.labels == 3 && a.protocol(&s))
	}
	return a.reply(t)
}

// target is a name with an address and ports: the Service itself, or an endpoint.
type target struct {
	host  string // label in front of the Service's name, or ""
	addr  netip.Addr
	ports []Port
}

// targets are what the name stands for: the external addresses, or else the endpoints if the headless option and the name allow it.
func (a *asked) targets(s *Service) []target {
	var want Port
	endpoint := ""
	switch a.labels {
	case 3:
		endpoint = strings.TrimPrefix(string(a.q.Name.Label(0)), "_")
	case 4:
		want.Name = strings.TrimPrefix(string(a.q.Name.Label(0)), "_")
		want.Protocol = strings.TrimPrefix(string(a.q.Name.Label(1)), "_")
	}
	var out []target
	if len(s.Addrs) > 0 {
		if ports, ok := want.among(s.Ports); ok && endpoint == "" {
			for _, addr := range s.Addrs {
				out = append(out, target{"", addr, ports})
			}
		}
		return out
	}
	if a.o.Headless && (s.Headless || endpoint != "") {
		return endpoints(s.Endpoints, endpoint, want)
	}
	return nil
}

// endpoints are those of the given name, or all, that have the port that is wanted.
func endpoints(all []Endpoint, name string, want Port) (out []target) {
	for _, e := range all {
		if name != "" && e.Host != name {
			continue
		}
		if ports, ok := want.among(e.Ports); ok {
			out = append(out, target{e.Host, e.Addr, ports})
		}
	}
	return out
}

// among gives the ports that are asked for. Without a port in the name those are all, even none.
func (p Port) among(ports []Port) (found []Port, ok bool) {
	if p.Protocol == "" && p.Name == "" {
		return ports, true
	}
	for _, o := range ports {
		if o.Protocol == p.Protocol && strings.EqualFold(o.Name, p.Name) {
			found = append(found, o)
		}
	}
	return found, len(found) > 0
}

// protocol says whether the first label is that of a protocol under which there are ports: such a name exists (RFC 8020).
func (a *asked) protocol(s *Service) bool {
	proto, ok := strings.CutPrefix(string(a.q.Name.Label(0)), "_")
	if !ok || len(s.Addrs) == 0 {
		return false
	}
	for _, p := range s.Ports {
		if p.Protocol == proto && p.Name != "" {
			return true
		}
	}
	return false
}

func (a *asked) reply(targets []target) server.Verdict {
	before := a.r.Count(server.Answer)
	switch a.q.Type {
	case wire.TypeA, wire.TypeAAAA:
		addrs := make([]netip.Addr, len(targets))
		for i := range targets {
			addrs[i] = targets[i].addr
		}
		a.addrs(addrs)
	case wire.TypeSRV:
		a.srv(targets)
	}
	return a.done(before)
}

// srv answers with one record for each name and port, and adds the addresses of the names. The weights are equal and add up to about 100.
func (a *asked) srv(targets []target) {
	type key struct {
		host string
		port uint16
	}
	var order []key
	seen := map[key]bool{}
	for _, t := range targets {
		for _, p := range t.ports {
			if k := (key{t.host, p.Number}); !seen[k] {
				seen[k] = true
				order = append(order, k)
			}
		}
	}
	refs := map[string]server.Ref{}
	weight := uint16(max(1, 100/max(1, len(order))))
	for _, i := range a.r.Order(len(order)) {
		k := order[i]
		a.r.Begin(server.Answer, server.Owner, wire.TypeSRV, a.o.TTL)
		a.r.PutUint16(0)
		a.r.PutUint16(weight)
		a.r.PutUint16(k.port)
		ref := a.r.PutName(a.name(k.host))
		if a.r.End() && refs[k.host] == server.NoRef {
			refs[k.host] = ref
		}
	}
	glued := map[hostAddr]bool{}
	for _, t := range targets {
		k := hostAddr{t.host, t.addr}
		if ref := refs[t.host]; ref != server.NoRef && !glued[k] {
			glued[k] = true
			a.r.Addr(server.Additional, ref, a.o.TTL, t.addr)
		}
	}
}

// hostAddr is a label with its address.
type hostAddr struct {
	host string
	addr netip.Addr
}

// name is the Service's name as it was asked, with an endpoint's in front of it unless that is empty.
func (a *asked) name(host string) []byte {
	service := a.q.Name.Bytes()[a.q.Name.Offset(a.labels-2):]
	if host == "" {
		return service
	}
	labels, err := wire.ParseName(host)
	if err != nil || len(labels)-1+len(service) > wire.MaxName {
		return service
	}
	return append(labels[:len(labels)-1], service...)
}
