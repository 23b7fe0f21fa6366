package dump

import (
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterdns/clusterdns/kubernetes"
)

// renamer says what names and addresses become.
type renamer interface {
	name(string) string         // of objects, nodes, topology zones and label values: of one or several labels
	port(string) string         // of ports
	key(string) string          // of labels
	domain(string) string       // names in the DNS
	addr(netip.Addr) netip.Addr // IP addresses
	sliceName(n int, was string) string
}

// asIs changes nothing.
type asIs struct{}

func (asIs) name(s string) string             { return s }
func (asIs) port(s string) string             { return s }
func (asIs) key(s string) string              { return s }
func (asIs) domain(s string) string           { return s }
func (asIs) addr(a netip.Addr) netip.Addr     { return a }
func (asIs) sliceName(_ int, s string) string { return s }

// object is an object of the API, or a part of one. Values that are not set are left out.
type object map[string]any

// put sets a field unless the value is what the API takes for none.
func (o object) put(field string, value any) {
	switch v := value.(type) {
	case string:
		if v == "" {
			return
		}
	case bool:
		if !v {
			return
		}
	case object:
		if len(v) == 0 {
			return
		}
	case []object:
		if len(v) == 0 {
			return
		}
	case []string:
		if len(v) == 0 {
			return
		}
	}
	o[field] = value
}

// writer writes objects, one at a time: what it keeps is what the renamer does.
type writer struct {
	to     io.Writer
	encode func(any) ([]byte, error) // one object, with a line feed at its end
	names  renamer
	slices int // written so far
	err    error
}

// inventory writes all that was read of a cluster.
func (w *writer) inventory(v *kubernetes.Inventory) {
	for i := range v.Namespaces {
		w.namespace(&v.Namespaces[i])
	}
	for i := range v.Services {
		w.service(&v.Services[i])
	}
	for i := range v.Slices {
		w.slice(&v.Slices[i])
	}
	for i := range v.Pods {
		w.pod(&v.Pods[i])
	}
}

// reduced writes what a server keeps of an object.
func (w *writer) reduced(o kubernetes.Object) {
	switch o := o.(type) {
	case *kubernetes.Namespace:
		w.namespace(&kubernetes.NamespaceInfo{Namespace: *o})
	case *kubernetes.Service:
		w.service(&kubernetes.ServiceInfo{Service: *o})
	case *kubernetes.EndpointSlice:
		w.slice(&kubernetes.SliceInfo{EndpointSlice: *o})
	case *kubernetes.Pod:
		w.pod(&kubernetes.PodInfo{Pod: *o})
	}
}

func (w *writer) namespace(n *kubernetes.NamespaceInfo) {
	w.document("v1", "Namespace", w.meta("", n.Name, n.Labels), nil, nil)
}

// document writes one object. A part that is nil is left out; rest are fields beside metadata, spec and status.
func (w *writer) document(version, kind string, meta object, spec, status object, rest ...object) {
	o := object{"apiVersion": version, "kind": kind, "metadata": meta}
	o.put("spec", spec)
	o.put("status", status)
	for _, r := range rest {
		for k, v := range r {
			o.put(k, v)
		}
	}
	text, err := w.encode(o)
	if err == nil {
		_, err = fmt.Fprintf(w.to, "---\n%s", text)
	}
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) meta(namespace, name string, labels map[string]string) object {
	m := object{"name": w.names.name(name)}
	if namespace != "" {
		m["namespace"] = w.names.name(namespace)
	}
	m.put("labels", w.labels(labels))
	return m
}

func (w *writer) labels(in map[string]string) object {
	out := object{}
	for _, k := range slices.Sorted(maps.Keys(in)) { // in one order, so that names are given out in one
		out[w.names.key(k)] = w.names.name(in[k])
	}
	return out
}

func (w *writer) addrs(in []netip.Addr) (out []string) {
	for _, a := range in {
		out = append(out, w.names.addr(a).String())
	}
	return out
}

// selector says that there is one where it is not known: an Endpoints object is mirrored only where there is none.
func (w *writer) selector(s *kubernetes.ServiceInfo) object {
	if s.Selector && len(s.Labelled) == 0 {
		return object{kubernetes.UnknownSelector: "unknown"}
	}
	return w.labels(s.Labelled)
}

// noTarget is an externalName that leads nowhere: where it was an address, which is no name, a server keeps nothing of it.
const noTarget = "0.0.0.0"

func (w *writer) service(s *kubernetes.ServiceInfo) {
	spec := object{"type": [...]string{"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"}[s.Type]}
	ips := w.addrs(s.ClusterIPs)
	if s.Headless {
		ips = []string{"None"}
	}
	if len(ips) > 0 {
		spec["clusterIP"], spec["clusterIPs"] = ips[0], ips
	}
	spec.put("externalName", w.names.domain(s.ExternalName))
	if s.Type == kubernetes.ExternalName && s.ExternalName == "" {
		spec["externalName"] = noTarget
	}
	spec.put("publishNotReadyAddresses", s.Unready)
	spec.put("selector", w.selector(s))
	var ports []object
	for i, p := range s.Ports {
		o := w.port("port", p)
		if i < len(s.Targets) {
			if n, err := strconv.Atoi(s.Targets[i]); err == nil {
				o["targetPort"] = n
			} else {
				o["targetPort"] = w.names.port(s.Targets[i])
			}
		}
		ports = append(ports, o)
	}
	spec.put("ports", ports)
	var ingress []object
	for _, e := range s.External {
		if e.Addr.IsValid() {
			ingress = append(ingress, object{"ip": w.names.addr(e.Addr).String()})
		} else {
			ingress = append(ingress, object{"hostname": w.names.domain(e.Hostname)})
		}
	}
	status := object{}
	if len(ingress) > 0 { // externalIPs are among them: DNS does not tell the two apart
		status["loadBalancer"] = object{"ingress": ingress}
	}
	w.document("v1", "Service", w.meta(s.Namespace, s.Name, s.Labels), spec, status)
}

func (w *writer) port(field string, p kubernetes.Port) object {
	o := object{field: p.Number, "protocol": strings.ToUpper(p.Protocol.String())}
	o.put("name", w.names.port(p.Name))
	return o
}

// serviceLabel says to which Service a slice belongs.
const serviceLabel = "kubernetes.io/service-name"

func (w *writer) slice(s *kubernetes.SliceInfo) {
	name := strings.ReplaceAll(s.Name, "/", "-") // those that were made of an Endpoints object have a name that no object can have
	meta := w.meta(s.Namespace, name, s.Labels)
	meta["name"] = w.names.sliceName(w.slices, name)
	w.slices++
	if s.EndpointSlice.Service != "" {
		l, _ := meta["labels"].(object)
		if l == nil {
			l = object{}
			meta["labels"] = l
		}
		l[serviceLabel] = w.names.name(s.EndpointSlice.Service)
	}
	family := "IPv4"
	var endpoints []object
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if e.Addr.Is6() {
			family = "IPv6"
		}
		o := object{
			"addresses":  []string{w.names.addr(e.Addr).String()},
			"conditions": object{"ready": e.Ready, "serving": e.Serving, "terminating": e.Terminating},
		}
		o.put("hostname", w.names.name(e.Hostname))
		o.put("zone", w.names.name(e.Zone))
		if i < len(s.Nodes) {
			o.put("nodeName", w.names.name(s.Nodes[i]))
		}
		if e.Pod != "" {
			o["targetRef"] = object{"kind": "Pod", "name": w.names.name(e.Pod), "namespace": w.names.name(s.Namespace)}
		}
		endpoints = append(endpoints, o)
	}
	var ports []object
	for _, p := range s.Ports {
		ports = append(ports, w.port("port", p))
	}
	w.document("discovery.k8s.io/v1", "EndpointSlice", meta, nil, nil, object{"addressType": family, "ports": ports, "endpoints": endpoints})
}

func (w *writer) pod(p *kubernetes.PodInfo) {
	spec := object{}
	spec.put("nodeName", w.names.name(p.Node))
	spec.put("hostNetwork", p.HostNetwork)
	spec.put("dnsPolicy", p.DNSPolicy)
	var containers []object
	for i := range p.Containers {
		c := object{"name": w.names.name(p.Containers[i].Name)}
		var ports []object
		for _, port := range p.Containers[i].Ports {
			ports = append(ports, w.port("containerPort", port))
		}
		c.put("ports", ports)
		containers = append(containers, c)
	}
	spec.put("containers", containers)
	dns := object{}
	var searches []string
	for _, s := range p.Searches {
		searches = append(searches, w.names.domain(s))
	}
	dns.put("searches", searches)
	if p.NDots != "" {
		dns["options"] = []object{{"name": "ndots", "value": p.NDots}}
	}
	spec.put("dnsConfig", dns)
	status := object{}
	status.put("phase", p.Phase)
	ips := w.addrs(p.IPs)
	var all []object
	for _, ip := range ips {
		all = append(all, object{"ip": ip})
	}
	status.put("podIPs", all)
	if len(ips) > 0 {
		status["podIP"] = ips[0]
	}
	if p.Ready {
		status["conditions"] = []object{{"type": "Ready", "status": "True"}}
	}
	w.document("v1", "Pod", w.meta(p.Namespace, p.Name, p.Labels), spec, status)
}
