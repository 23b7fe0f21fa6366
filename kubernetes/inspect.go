package kubernetes

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Inspector shows the objects of a cluster for explanations. *Index shows the live state, reduced to what records need; *Inventory
// shows all that there is to say at one moment. What is returned belongs to the caller, but for what the objects point to.
type Inspector interface {
	// NamespaceNames are the namespaces that exist, sorted.
	NamespaceNames() []string
	// ServiceNames are the Services of a namespace, sorted.
	ServiceNames(namespace string) []string
	// Service finds one. Names are compared as the DNS does, without regard to letter case.
	Service(namespace, name string) (ServiceInfo, bool)
	// SlicesOf are the EndpointSlices of a Service.
	SlicesOf(namespace, service string) []SliceInfo
	// Behind is the Service whose own address addr is, or else, of those that have a published endpoint there, the first by name.
	Behind(addr netip.Addr) (name ServiceName, ok bool)
	// PodsOf are the Pods of a namespace; known is false where nobody has told.
	PodsOf(namespace string) (pods []PodInfo, known bool)
}

// NamespaceInfo is a Namespace with what explanations say of it.
type NamespaceInfo struct {
	Namespace
	Labels map[string]string
}

// ServiceInfo is a Service with what explanations say of it.
type ServiceInfo struct {
	Service
	Labels map[string]string
	// Labelled is the selector; nil if it has none, or with Service.Selector set if it is not known.
	Labelled map[string]string
	// Targets are the target ports of Ports, as numbers or names; nil if they are not known.
	Targets []string
}

// UnknownSelector is a label that a Service selects in manifests of those who know that it has a selector, and not which: a server's index. No Pod has it.
const UnknownSelector = "clusterdns.invalid/selector"

// SliceInfo is an EndpointSlice with what explanations say of it.
type SliceInfo struct {
	EndpointSlice
	Labels map[string]string
	Nodes  []string // of Endpoints; nil if they are not known
}

// PodInfo is a Pod with what explanations say of it.
type PodInfo struct {
	Pod
	Labels      map[string]string
	Phase       string
	Ready       bool
	Deleting    bool
	HostNetwork bool
	Node        string
	Containers  []ContainerInfo // sidecars among them, and other init containers not
	DNSPolicy   string          // "" means ClusterFirst
	Searches    []string        // of dnsConfig
	NDots       string          // of dnsConfig
}

// ContainerInfo is a container of a Pod and the ports that it declares. Containers may listen on others.
type ContainerInfo struct {
	Name  string
	Ports []Port
}

// Published says whether an endpoint is among the records of a Service.
func (s *Service) Published(e *Endpoint) bool { return s.Unready || e.Ready }

// Selects says whether the Service's selector matches labels.
func (s *ServiceInfo) Selects(labels map[string]string) bool {
	for k, v := range s.Labelled {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return len(s.Labelled) > 0
}

// NamespaceNames implements Inspector.
func (x *Index) NamespaceNames() (out []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for label, s := range x.known {
		if s.exists.Load() {
			out = append(out, label[1:])
		}
	}
	slices.Sort(out)
	return out
}

// ServiceNames implements Inspector.
func (x *Index) ServiceNames(namespace string) (out []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for key, c := range x.cells {
		if ns, name := splitKey(key); c.svc != nil && strings.EqualFold(ns, namespace) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// AllServices are the Services of every namespace, sorted.
func (x *Index) AllServices() []ServiceName {
	x.mu.Lock()
	out := make([]ServiceName, 0, len(x.cells))
	for key, c := range x.cells {
		if c.svc != nil {
			ns, name := splitKey(key)
			out = append(out, ServiceName{ns, name})
		}
	}
	x.mu.Unlock()
	slices.SortFunc(out, func(a, b ServiceName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

// Service implements Inspector. Selector and target ports are not known.
func (x *Index) Service(namespace, name string) (ServiceInfo, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	key, ok := serviceKey(namespace, name)
	c := x.cells[key]
	if !ok || c == nil || c.svc == nil {
		return ServiceInfo{}, false
	}
	ns, n := splitKey(key)
	return ServiceInfo{Service: *c.svc.object(ns, n)}, true
}

// SlicesOf implements Inspector. Their names are not known, nor those of their Pods but for endpoint_pod_names.
func (x *Index) SlicesOf(namespace, service string) (out []SliceInfo) {
	x.mu.Lock()
	defer x.mu.Unlock()
	key, ok := serviceKey(namespace, service)
	c := x.cells[key]
	if !ok || c == nil {
		return nil
	}
	for _, s := range c.slices {
		out = append(out, SliceInfo{EndpointSlice: s.object(namespace, service)})
	}
	return out
}

// Behind implements Inspector.
func (x *Index) Behind(addr netip.Addr) (name ServiceName, ok bool) {
	b, own := addr.As16(), false
	for p := x.byAddr.find(&b); ; {
		c := p.next()
		if c == nil {
			return name, ok
		}
		e := c.entry.Load()
		if e == nil || !e.space.exists.Load() {
			continue
		}
		namespace, service := splitKey(e.key)
		found, its := ServiceName{namespace, service}, e.svc.has(addr)
		if !ok || its && !own || its == own && found.less(name) {
			name, ok, own = found, true, its
		}
	}
}

func (n ServiceName) less(o ServiceName) bool {
	return cmp.Or(strings.Compare(n.Namespace, o.Namespace), strings.Compare(n.Name, o.Name)) < 0
}

// object is the EndpointSlice that s was made of, without its name.
func (s *sliceData) object(namespace, service string) EndpointSlice {
	out := EndpointSlice{Namespace: namespace, Service: service}
	if s.eps.len() == 0 && len(s.eps.groups) == 0 {
		return out
	}
	for _, p := range s.eps.groups[0] {
		out.Ports = append(out.Ports, Port{p.name.Value(), p.number, p.proto})
	}
	for i := range s.eps.len() {
		st := s.stateOf(i)
		e := Endpoint{Addr: s.eps.addr(i), Ready: st&stateReady != 0, Serving: st&stateServing != 0, Terminating: st&stateTerminating != 0}
		e.Hostname = dotted(s.eps.host(i))
		e.Zone = dotted(s.eps.zone(i))
		out.Endpoints = append(out.Endpoints, e)
	}
	return out
}

// dotted is the text of wire labels without a root label.
func dotted(labels string) string {
	var out []string
	for len(labels) > 0 {
		n := int(labels[0]) + 1
		out, labels = append(out, labels[1:n]), labels[n:]
	}
	return strings.Join(out, ".")
}

// PodsOf implements Inspector: of Pods no more is kept than where they are.
func (x *Index) PodsOf(string) (pods []PodInfo, known bool) { return nil, false }
