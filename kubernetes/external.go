package kubernetes

import (
	"net/netip"
	"slices"
	"strings"
)

// ServiceName is where a Service is.
type ServiceName struct{ Namespace, Name string }

// ExternalView is what a Service shows outside the cluster.
type ExternalView struct {
	Addrs     []netip.Addr // of externalIPs and the load balancer
	Hostnames []string     // of the load balancer
	Ports     []Port       // names in lower case
	Headless  bool
	Endpoints []NamedEndpoint
}

// NamedEndpoint is one address of a published endpoint under the name that it has below its Service.
type NamedEndpoint struct {
	Host  string // one label, or several with dots between
	Addr  netip.Addr
	Ports []Port
}

// HasNamespace says whether a namespace exists and is answered for.
func (x *Index) HasNamespace(name string) bool {
	label, ok := wireLabels(name)
	return ok && x.spaces.get([]byte(label)) != nil
}

// Serial moves whenever anything changes that answers depend on: it is that of the SOA records.
func (x *Index) Serial() uint32 { return x.serial.Load() }

// ExternalService gives what a Service that exists shows outside. It allocates.
func (x *Index) ExternalService(namespace, name string) (v ExternalView, exists bool) {
	key, ok := serviceKey(namespace, name)
	if !ok {
		return v, false
	}
	e := x.services.get([]byte(key))
	if e == nil || !e.space.exists.Load() {
		return v, false
	}
	v = ExternalView{Addrs: e.svc.externalAddrs(), Ports: portsView(e.svc.ports), Headless: e.svc.form == formHeadless}
	for _, ext := range e.svc.external {
		if ext.Hostname != "" {
			v.Hostnames = append(v.Hostnames, ext.Hostname)
		}
	}
	if e.eps != nil {
		for i := range e.eps.len() {
			v.Endpoints = append(v.Endpoints, NamedEndpoint{e.eps.hostText(i), e.eps.addr(i), portsView(e.eps.portsOf(i))})
		}
	}
	return v, true
}

// ExternalServicesAt gives the Services that have an address outside the cluster, in the order of their names.
func (x *Index) ExternalServicesAt(addr netip.Addr) (out []ServiceName) {
	b := addr.Unmap().As16()
	for p := x.byAddr.find(&b); ; {
		c := p.next()
		if c == nil {
			break
		}
		if e := c.entry.Load(); e != nil && e.space.exists.Load() && slices.Contains(e.svc.externalAddrs(), addr.Unmap()) {
			ns, name := splitKey(e.key)
			out = append(out, ServiceName{ns, name})
		}
	}
	slices.SortFunc(out, func(a, b ServiceName) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	return out
}

// ExternalServers gives the addresses outside the cluster of the Services that this server is an endpoint of.
func (k *Kubernetes) ExternalServers() (out []netip.Addr) {
	for _, n := range k.nameservers() {
		if n.e == nil {
			continue
		}
		for _, a := range n.e.svc.externalAddrs() {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

func (s *svcData) externalAddrs() (out []netip.Addr) {
	for _, ext := range s.external {
		if ext.Addr.IsValid() {
			out = append(out, ext.Addr)
		}
	}
	return out
}

func portsView(ports []port) []Port {
	out := make([]Port, len(ports))
	for i, p := range ports {
		out[i] = Port{p.name.Value(), p.number, p.proto}
	}
	return out
}

// hostText is the name of endpoint i as text.
func (e *endpoints) hostText(i int) string {
	host := e.host(i)
	if host == "" {
		return string(appendDashed(nil, e.addr(i))[1:])
	}
	var labels []string
	for len(host) > 0 {
		n := int(host[0]) + 1
		labels = append(labels, host[1:n])
		host = host[n:]
	}
	return strings.Join(labels, ".")
}
