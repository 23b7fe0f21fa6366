package explain

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterdns/clusterdns/kubernetes"
)

// Service is what is known of a Service and what stands behind it.
type Service struct {
	Namespace       string   `json:"namespace"`
	Name            string   `json:"name"`
	Type            string   `json:"type"` // as kubectl shows it, or Headless
	Addresses       []string `json:"addresses,omitempty"`
	ExternalName    string   `json:"externalName,omitempty"`
	Selector        string   `json:"selector"` // "none", or "unknown" where it is not known
	PublishNotReady bool     `json:"publishNotReadyAddresses,omitempty"`
	Ports           []Port   `json:"ports,omitempty"`
	Slices          []Slice  `json:"endpointSlices,omitempty"`
}

// Port is a port of a Service.
type Port struct {
	Name     string   `json:"name,omitempty"`
	Port     uint16   `json:"port"`
	Protocol string   `json:"protocol"`
	Target   string   `json:"targetPort,omitempty"`
	LeadsTo  []uint16 `json:"leadsTo,omitempty"` // ports of endpoints
	Problem  string   `json:"problem,omitempty"` // why connections to it will not work
}

// Slice is an EndpointSlice.
type Slice struct {
	Name      string     `json:"name,omitempty"`
	Ports     []Port     `json:"ports,omitempty"`
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// Endpoint is one address of an EndpointSlice.
type Endpoint struct {
	Address     string `json:"address"`
	Hostname    string `json:"hostname,omitempty"`
	Pod         string `json:"pod,omitempty"`
	Node        string `json:"node,omitempty"`
	Ready       bool   `json:"ready"`
	Serving     bool   `json:"serving"`
	Terminating bool   `json:"terminating"`
	Published   bool   `json:"published"` // is in the answers of a headless Service, or gets connections of one that has an address
	Why         string `json:"why"`       // it is published, or is not

	label string // before the Service's name, of the endpoint's own
}

// backing is a Service with the objects behind it.
type backing struct {
	info      kubernetes.ServiceInfo
	slices    []kubernetes.SliceInfo
	pods      []kubernetes.PodInfo // of its namespace
	podsKnown bool
	podNames  bool // see Cluster
	report    *Service
}

// look gathers what is known of a Service.
func (c *Cluster) look(namespace, name string) (*backing, bool) {
	info, ok := c.Service(namespace, name)
	if !ok {
		return nil, false
	}
	b := &backing{info: info, slices: c.SlicesOf(info.Namespace, info.Name), podNames: c.PodNames}
	b.pods, b.podsKnown = c.PodsOf(info.Namespace)
	b.report = &Service{
		Namespace: info.Namespace, Name: info.Name, Type: typeName(&info.Service), ExternalName: info.ExternalName,
		Selector: selectorText(&info), PublishNotReady: info.Unready,
	}
	for _, a := range info.ClusterIPs {
		b.report.Addresses = append(b.report.Addresses, a.String())
	}
	for i := range b.slices {
		b.report.Slices = append(b.report.Slices, b.slice(&b.slices[i]))
	}
	for i, p := range info.Ports {
		port := portOf(p)
		if i < len(info.Targets) {
			port.Target = info.Targets[i]
		}
		b.report.Ports = append(b.report.Ports, port)
	}
	if info.Type != kubernetes.ExternalName {
		for i := range b.report.Ports {
			b.follow(&b.report.Ports[i])
		}
	}
	return b, true
}

func typeName(s *kubernetes.Service) string {
	if s.Headless {
		return "Headless"
	}
	return [...]string{"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"}[s.Type]
}

func selectorText(s *kubernetes.ServiceInfo) string {
	switch {
	case s.Labelled != nil:
		var out []string
		for _, k := range slices.Sorted(maps.Keys(s.Labelled)) {
			out = append(out, k+"="+s.Labelled[k])
		}
		return strings.Join(out, ",")
	case s.Selector:
		return "unknown"
	}
	return "none"
}

func portOf(p kubernetes.Port) Port {
	return Port{Name: p.Name, Port: p.Number, Protocol: strings.ToUpper(p.Protocol.String())}
}

func (b *backing) slice(s *kubernetes.SliceInfo) Slice {
	out := Slice{Name: s.Name}
	if from, _, ok := strings.Cut(s.Name, "/"); ok { // no object has such a name
		out.Name = "mirrored from Endpoints " + from
	}
	for _, p := range s.Ports {
		out.Ports = append(out.Ports, portOf(p))
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		r := Endpoint{
			Address: e.Addr.String(), Hostname: e.Hostname, Pod: e.Pod,
			Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating, Published: b.info.Published(e),
		}
		if i < len(s.Nodes) {
			r.Node = s.Nodes[i]
		}
		r.label = b.label(e)
		if p := b.podOf(&r); r.Pod == "" && p != nil && b.info.Selects(p.Labels) {
			r.Pod, r.Node = p.Name, p.Node
		}
		r.Why = why(&r, b.info.Headless)
		out.Endpoints = append(out.Endpoints, r)
	}
	return out
}

// label is what DNS calls an endpoint.
func (b *backing) label(e *kubernetes.Endpoint) string {
	switch {
	case e.Hostname != "":
		return e.Hostname
	case b.podNames && e.Pod != "":
		return e.Pod
	}
	return strings.NewReplacer(".", "-", ":", "-").Replace(e.Addr.String())
}

// why says in a few words why an endpoint is published or not.
func why(e *Endpoint, headless bool) string {
	state := "not ready"
	switch {
	case e.Ready:
		state = "ready"
	case e.Terminating && e.Serving:
		state = "terminating, still serving"
	case e.Terminating:
		state = "terminating"
	}
	switch {
	case e.Ready:
		return state
	case e.Published:
		return state + "; published because the Service has publishNotReadyAddresses"
	case !headless && e.Terminating && e.Serving:
		return state + "; gets connections only while no other is ready"
	}
	return state + "; left out"
}

// follow finds where a port of the Service leads.
func (b *backing) follow(p *Port) {
	endpoints := 0
	for i := range b.report.Slices {
		s := &b.report.Slices[i]
		endpoints += len(s.Endpoints)
		if len(s.Endpoints) == 0 {
			continue
		}
		for _, q := range s.Ports {
			if q.Name == p.Name && q.Protocol == p.Protocol && !slices.Contains(p.LeadsTo, q.Port) {
				p.LeadsTo = append(p.LeadsTo, q.Port)
			}
		}
	}
	p.Problem = b.problem(p, endpoints)
}

// problem is why connections to a port will not work, or "".
func (b *backing) problem(p *Port, endpoints int) string {
	switch {
	case endpoints == 0:
		return "no endpoints"
	case len(p.LeadsTo) > 0:
		return b.undeclared(p)
	case p.Target != "" && !numeric(p.Target) && b.podsKnown:
		return fmt.Sprintf("no container of its Pods has a port named %s%s", p.Target, b.declared())
	}
	return "no EndpointSlice has a port of this name and protocol"
}

func numeric(s string) bool { _, err := strconv.Atoi(s); return err == nil }

// undeclared says that no container declares the ports that p leads to, if all the Pods are known and declare others.
func (b *backing) undeclared(p *Port) string {
	if !b.podsKnown {
		return ""
	}
	known := 0
	for i := range b.report.Slices {
		for j := range b.report.Slices[i].Endpoints {
			pod := b.podOf(&b.report.Slices[i].Endpoints[j])
			if pod == nil {
				return ""
			}
			known++
			ports := portsOf(pod)
			if len(ports) == 0 || slices.ContainsFunc(ports, func(q kubernetes.Port) bool { return slices.Contains(p.LeadsTo, q.Number) }) {
				return ""
			}
		}
	}
	if known == 0 {
		return ""
	}
	return fmt.Sprintf("leads to port %d, which no container of its Pods declares%s", p.LeadsTo[0], b.declared())
}

// podOf is the Pod of an endpoint, by name or else by address, or nil.
func (b *backing) podOf(e *Endpoint) *kubernetes.PodInfo {
	for i := range b.pods {
		p := &b.pods[i]
		if e.Pod != "" && p.Name == e.Pod || e.Pod == "" && slices.ContainsFunc(p.IPs, func(a netip.Addr) bool { return a.String() == e.Address }) {
			return p
		}
	}
	return nil
}

func portsOf(p *kubernetes.PodInfo) (out []kubernetes.Port) {
	for i := range p.Containers {
		out = append(out, p.Containers[i].Ports...)
	}
	return out
}

// maxListed bounds what one line lists.
const maxListed = 5

// declared is the ports that containers of the Service's Pods declare, in brackets, or nothing.
func (b *backing) declared() string {
	var out []string
	for i := range b.pods {
		if !b.info.Selects(b.pods[i].Labels) {
			continue
		}
		for _, p := range portsOf(&b.pods[i]) {
			text := strconv.Itoa(int(p.Number))
			if p.Name != "" {
				text = p.Name + " " + text
			}
			if !slices.Contains(out, text) && len(out) < maxListed {
				out = append(out, text)
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " (they declare " + strings.Join(out, ", ") + ")"
}

// counts are how many endpoints there are, ready ones, and published ones, among those that the subject names.
func (b *backing) counts(s *subject) (total, ready, published int) {
	for i := range b.report.Slices {
		for j := range b.report.Slices[i].Endpoints {
			e := &b.report.Slices[i].Endpoints[j]
			if s.endpoint != "" && !e.named(s.endpoint) {
				continue
			}
			total++
			if e.Ready {
				ready++
			}
			if e.Published {
				published++
			}
		}
	}
	return total, ready, published
}

// named says whether an endpoint's name is a label.
func (e *Endpoint) named(label string) bool { return strings.EqualFold(e.label, label) }
