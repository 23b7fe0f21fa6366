// Package kubernetes answers the names of a cluster: Services, their endpoints, Pods and addresses, from a live index in memory.
//
// The index is a Sink. It is filled by one Source, either the API server of a cluster or files of manifests, in objects that are reduced
// to what makes records. The From functions reduce; they are pure, so that a source can drop the object it read at once.
package kubernetes

import (
	"cmp"
	"context"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Kind is a kind of object that makes records.
type Kind uint8

// The kinds, in the order in which a source best delivers them at its start.
const (
	KindNamespace Kind = iota
	KindService
	KindEndpointSlice
	KindPod
	numKinds
)

// String is the kind as manifests write it.
func (k Kind) String() string {
	return [...]string{"Namespace", "Service", "EndpointSlice", "Pod"}[k]
}

// Object is one of *Namespace, *Service, *EndpointSlice and *Pod. Once it is given to a Sink it is never changed.
type Object interface {
	Kind() Kind
	// Key is namespace and name. The namespace of a Namespace is "".
	Key() (namespace, name string)
}

// Sink is what a Source fills: the live index. Every method returns when what it did can be seen by queries, which never takes longer
// than the work on the objects given. Methods may be called concurrently for different kinds; calls for one kind must come one
// after the other, in the order of the events. A Sink keeps the objects that it is given.
//
// A Sink filters by Options.Namespaces itself. Options.Labels and Options.NamespaceLabels are the source's: it gives only objects that
// match, and deletes those that no longer do.
type Sink interface {
	// Apply adds an object or takes the place of the one with the same kind and key.
	Apply(Object)
	// Delete removes an object; one that is not there is no error. It needs only kind and key, so that a tombstone will do.
	Delete(kind Kind, namespace, name string)
	// Replace makes objects all there is of a kind. It is applied as a difference: an object that is in both stays visible
	// throughout. From the first call on, the kind counts as synced. A kind that is not Needed is never delivered.
	Replace(kind Kind, objects iter.Seq[Object])
}

// Source reads a cluster into a Sink.
type Source interface {
	// Run delivers every Needed kind by Replace as soon as it is known whole, and then each change, until ctx ends; then it returns nil.
	// A cluster that cannot be reached is no error: Run logs it and tries on. An error is something that waiting will not heal, such
	// as a malformed file; a source returns one only before its first Replace, and keeps the last good state after it.
	Run(ctx context.Context, to Sink) error
}

// Needed says whether the options need a kind at all: slices not with noendpoints, Pods only for pods verified.
func (o *Options) Needed(k Kind) bool {
	switch k {
	case KindEndpointSlice:
		return o.Endpoints
	case KindPod:
		return o.Pods == PodsVerified
	}
	return true
}

// Namespace is what is kept of a Namespace: that it exists.
type Namespace struct {
	Name string
}

// Kind is KindNamespace.
func (n *Namespace) Kind() Kind { return KindNamespace }

// Key is "" and the name.
func (n *Namespace) Key() (namespace, name string) { return "", n.Name }

// FromNamespace reduces a Namespace.
func FromNamespace(n *corev1.Namespace) *Namespace { return &Namespace{Name: strings.Clone(n.Name)} }

// Protocol is the transport of a port.
type Protocol uint8

// The protocols of ports. Others do not exist in Kubernetes; an empty one is TCP.
const (
	TCP Protocol = iota
	UDP
	SCTP
)

// String is the protocol as its label in SRV names, without the underscore.
func (p Protocol) String() string { return [...]string{"tcp", "udp", "sctp"}[p] }

func protocolOf(p corev1.Protocol) Protocol {
	switch p {
	case corev1.ProtocolUDP:
		return UDP
	case corev1.ProtocolSCTP:
		return SCTP
	}
	return TCP
}

// Port is a port of a Service or of an EndpointSlice.
type Port struct {
	Name     string `json:",omitempty"` // "" for an unnamed one
	Number   uint16
	Protocol Protocol `json:",omitempty"`
}

// Service is what is kept of a Service.
type Service struct {
	Namespace, Name string
	ClusterIPs      []netip.Addr `json:",omitempty"` // empty when headless or ExternalName
	Ports           []Port       `json:",omitempty"`
	ExternalName    string       `json:",omitempty"` // the target, only of type ExternalName
	External        []External   `json:",omitempty"`
	Type            ServiceType  `json:",omitempty"`
	Headless        bool         `json:",omitempty"` // clusterIP: None
	Unready         bool         `json:",omitempty"` // publishNotReadyAddresses
	Selector        bool         `json:",omitempty"` // has a selector, so that the control plane keeps its slices
}

// ServiceType is the type of a Service.
type ServiceType uint8

// The types of Services.
const (
	ClusterIP ServiceType = iota
	NodePort
	LoadBalancer
	ExternalName
)

// External is an address or name by which a Service can be reached from outside: of externalIPs or the load balancer's ingress.
type External struct {
	Addr     netip.Addr `json:",omitzero"` // invalid if it is a name
	Hostname string     `json:",omitempty"`
}

// Kind is KindService.
func (s *Service) Kind() Kind { return KindService }

// Key is namespace and name.
func (s *Service) Key() (namespace, name string) { return s.Namespace, s.Name }

// FromService reduces a Service. Addresses that do not parse are left out.
func FromService(s *corev1.Service) *Service {
	out := &Service{
		Namespace: strings.Clone(s.Namespace),
		Name:      strings.Clone(s.Name),
		Unready:   s.Spec.PublishNotReadyAddresses,
		Selector:  len(s.Spec.Selector) > 0,
		Headless:  s.Spec.ClusterIP == corev1.ClusterIPNone,
	}
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
		out.Type = NodePort
	case corev1.ServiceTypeLoadBalancer:
		out.Type = LoadBalancer
	case corev1.ServiceTypeExternalName:
		out.Type, out.ExternalName, out.Headless = ExternalName, strings.Clone(s.Spec.ExternalName), false
	}
	if out.Type != ExternalName {
		out.ClusterIPs = addrs(clusterIPs(s))
	}
	if n := len(s.Spec.Ports); n > 0 {
		out.Ports = make([]Port, n)
		for i, p := range s.Spec.Ports {
			out.Ports[i] = Port{Name: strings.Clone(p.Name), Number: uint16(p.Port), Protocol: protocolOf(p.Protocol)}
		}
	}
	out.External = externals(s)
	return out
}

// clusterIPs are the addresses of a Service; clusterIP alone is what old clusters and people write.
func clusterIPs(s *corev1.Service) []string {
	if len(s.Spec.ClusterIPs) == 0 {
		return []string{s.Spec.ClusterIP}
	}
	return s.Spec.ClusterIPs
}

// externals are the addresses and names of a Service outside the cluster.
func externals(s *corev1.Service) (out []External) {
	for _, ip := range addrs(s.Spec.ExternalIPs) {
		out = append(out, External{Addr: ip})
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		if ip, err := netip.ParseAddr(in.IP); err == nil {
			out = append(out, External{Addr: ip.Unmap().WithZone("")})
		} else if in.Hostname != "" {
			out = append(out, External{Hostname: strings.Clone(in.Hostname)})
		}
	}
	return out
}

// EndpointSlice is what is kept of an EndpointSlice.
type EndpointSlice struct {
	Namespace, Name string
	Service         string     // label kubernetes.io/service-name; "" when it has none
	Ports           []Port     `json:",omitempty"`
	Endpoints       []Endpoint `json:",omitempty"`
	// Trigger is when the change began that this version of the slice shows (annotation endpoints.kubernetes.io/last-change-trigger-time),
	// or zero.
	Trigger time.Time `json:",omitzero"`
}

// Endpoint is one address of an endpoint; an endpoint of several addresses becomes several.
type Endpoint struct {
	Addr                        netip.Addr
	Hostname                    string `json:",omitempty"` // "" when it has none
	Pod                         string `json:",omitempty"` // name of the Pod that it targets, or ""
	Zone                        string `json:",omitempty"` // topology zone, or ""
	Ready, Serving, Terminating bool   `json:",omitempty"` // with the defaults of the API filled in
}

// Kind is KindEndpointSlice.
func (s *EndpointSlice) Kind() Kind { return KindEndpointSlice }

// Key is namespace and name.
func (s *EndpointSlice) Key() (namespace, name string) { return s.Namespace, s.Name }

// FromEndpointSlice reduces an EndpointSlice. Addresses that are not IP addresses, and ports without a number, are left out.
func FromEndpointSlice(s *discoveryv1.EndpointSlice) *EndpointSlice {
	out := &EndpointSlice{
		Namespace: strings.Clone(s.Namespace),
		Name:      strings.Clone(s.Name),
		Service:   strings.Clone(s.Labels[discoveryv1.LabelServiceName]),
	}
	if t, err := time.Parse(time.RFC3339Nano, s.Annotations[corev1.EndpointsLastChangeTriggerTime]); err == nil {
		out.Trigger = t
	}
	for _, p := range s.Ports {
		if p.Port == nil {
			continue
		}
		out.Ports = append(out.Ports, portOf(p))
	}
	out.Ports = slices.Clip(out.Ports)
	n := 0
	for i := range s.Endpoints {
		n += len(s.Endpoints[i].Addresses)
	}
	out.Endpoints = make([]Endpoint, 0, n)
	for i := range s.Endpoints {
		out.Endpoints = appendEndpoint(out.Endpoints, &s.Endpoints[i])
	}
	return out
}

func portOf(p discoveryv1.EndpointPort) Port {
	out := Port{Number: uint16(*p.Port)}
	if p.Name != nil {
		out.Name = strings.Clone(*p.Name)
	}
	if p.Protocol != nil {
		out.Protocol = protocolOf(*p.Protocol)
	}
	return out
}

// appendEndpoint adds e's addresses. Unknown readiness means ready, unknown serving follows ready, unknown terminating means not (EndpointConditions).
func appendEndpoint(out []Endpoint, e *discoveryv1.Endpoint) []Endpoint {
	ep := Endpoint{Ready: e.Conditions.Ready == nil || *e.Conditions.Ready}
	ep.Serving = ep.Ready
	if c := e.Conditions.Serving; c != nil {
		ep.Serving = *c
	}
	if c := e.Conditions.Terminating; c != nil {
		ep.Terminating = *c
	}
	if e.Hostname != nil {
		ep.Hostname = strings.Clone(*e.Hostname)
	}
	if e.Zone != nil {
		ep.Zone = strings.Clone(*e.Zone)
	}
	if e.TargetRef != nil && cmp.Or(e.TargetRef.Kind, "Pod") == "Pod" {
		ep.Pod = strings.Clone(e.TargetRef.Name)
	}
	for _, a := range addrs(e.Addresses) {
		ep.Addr = a
		out = append(out, ep)
	}
	return out
}

// Pod is what is kept of a Pod: where it is.
type Pod struct {
	Namespace, Name string
	IPs             []netip.Addr
}

// Kind is KindPod.
func (p *Pod) Kind() Kind { return KindPod }

// Key is namespace and name.
func (p *Pod) Key() (namespace, name string) { return p.Namespace, p.Name }

// FromPod reduces a Pod. One that has ended, or is being deleted, keeps no addresses: they are another's soon. PodFieldSelector keeps
// an API server from sending those that have ended.
func FromPod(p *corev1.Pod) *Pod {
	out := &Pod{Namespace: strings.Clone(p.Namespace), Name: strings.Clone(p.Name)}
	switch p.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown:
		return out
	}
	if p.DeletionTimestamp != nil {
		return out
	}
	ips := make([]string, 0, len(p.Status.PodIPs)+1)
	if p.Status.PodIP != "" {
		ips = append(ips, p.Status.PodIP)
	}
	for _, ip := range p.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	out.IPs = addrs(ips)
	return out
}

// PodFieldSelector selects the Pods that can have an address of their own.
const PodFieldSelector = "status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown"

// addrs parses addresses and leaves out what does not parse and what repeats. IPv4 in IPv6 becomes IPv4; zones are dropped.
func addrs(in []string) []netip.Addr {
	if len(in) == 0 {
		return nil
	}
	out := make([]netip.Addr, 0, len(in))
	for _, s := range in {
		a, err := netip.ParseAddr(s)
		if err != nil {
			continue
		}
		if a = a.Unmap().WithZone(""); !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}
