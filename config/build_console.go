package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/plugin/console"
	"github.com/clusterdns/clusterdns/server"
)

// This file has the console directive: it shows what others have built.

func buildConsole(s *site, o console.Options) error {
	m, err := keep(s, o, func() (*console.Monitor, error) { return console.NewMonitor(s.shared.registry), nil })
	if err != nil {
		return err
	}
	d := console.Deps{State: s.generation.state, Explain: s.shared.explain, Dump: s.shared.dump, Version: s.shared.build.Version, Log: s.logger()}
	s.route(console.New(o, m, d).Routes()...)
	return nil
}

// state is what the console shows of a configuration. It is asked for once the configuration is built.
func (g *generation) state() console.State {
	var out console.State
	for _, s := range g.sites {
		upstreams := s.upstreams()
		state, why := s.standing(upstreams)
		for _, z := range s.block.Zones {
			for _, h := range s.hosts {
				out.Zones = append(out.Zones, console.Zone{
					Name: z.Name, Listener: z.Transport + "://" + net.JoinHostPort(h, z.Port), View: s.view, Directives: s.block.names(),
					State: state, Why: why,
				})
			}
		}
		out.Upstreams = append(out.Upstreams, upstreams...)
		if s.cluster != nil {
			out.Clusters = append(out.Clusters, shown{s.cluster.Kubernetes})
		}
	}
	out.DNS = g.address()
	return out
}

// upstreams are those of a server block.
func (s *site) upstreams() (out []console.Upstream) {
	if s.forwarder == nil {
		return nil
	}
	for _, u := range s.forwarder.Upstreams() {
		state, why := u.State()
		out = append(out, console.Upstream{Zone: u.Zone().String(), Address: u.String(), State: state.String(), Why: why})
	}
	return out
}

// standing says how it stands with the zones of a server block: a word, and what there is to say of it.
func (s *site) standing(upstreams []console.Upstream) (state, why string) {
	switch {
	case s.cluster != nil && !s.cluster.Ready():
		return "reading", "the cluster's objects have not been read yet"
	case s.cluster != nil && s.cluster.Stale():
		return "stale", "from a snapshot: the API server has not been read since the start"
	}
	usable := map[string]bool{} // by zone
	for _, u := range upstreams {
		works := u.State == server.UpstreamUp.String() || u.State == server.UpstreamFailing.String()
		usable[u.Zone] = usable[u.Zone] || works
	}
	var without []string
	for zone, ok := range usable {
		if !ok {
			without = append(without, zone)
		}
	}
	if len(without) > 0 {
		slices.Sort(without)
		return "no upstream", "no server for names in " + strings.Join(without, ", ") + " works"
	}
	return "up", ""
}

// names are the directives of a server block, each once, in the order of the chain.
func (b *Block) names() (out []string) {
	for _, u := range b.Uses {
		if !slices.Contains(out, u.Directive.Name) {
			out = append(out, u.Directive.Name)
		}
	}
	return out
}

// address is where the server can be asked over plain DNS by itself: at the first listener that has a cluster, or else the first at all.
func (g *generation) address() (found string) {
	for _, s := range g.sites {
		for _, z := range s.block.Zones {
			if z.Transport != "dns" || z.Port == "0" { // which port stands for 0 is not known here
				continue
			}
			if at := net.JoinHostPort(reachable(s.hosts[0]), z.Port); s.cluster != nil {
				return at
			} else if found == "" {
				found = at
			}
		}
	}
	return found
}

// reachable is an address under which this machine reaches a server that listens on host.
func reachable(host string) string {
	a, err := netip.ParseAddr(host)
	switch {
	case host == "", err == nil && a == netip.IPv4Unspecified():
		return "127.0.0.1"
	case err == nil && a.IsUnspecified():
		return "::1"
	}
	return host
}

// shown shows a cluster to the console.
type shown struct{ *kubernetes.Kubernetes }

// Zones implements console.Cluster.
func (c shown) Zones() (out []string) {
	for _, z := range c.Kubernetes.Zones() {
		if name := z.String(); !strings.HasSuffix(name, ".arpa.") {
			out = append(out, name)
		}
	}
	return out
}

// Source implements console.Cluster.
func (c shown) Source() string {
	switch o := c.Options(); {
	case len(o.Manifests) > 0:
		return "manifests"
	case len(o.Endpoint) > 0:
		return "API server " + o.Endpoint
	}
	return "API server"
}

// Namespaces implements console.Cluster.
func (c shown) Namespaces() int { return len(c.NamespaceNames()) }

// Services implements console.Cluster.
func (c shown) Services() []console.ServiceName {
	all := c.AllServices()
	out := make([]console.ServiceName, len(all))
	for i, n := range all {
		out[i] = console.ServiceName(n)
	}
	return out
}

// serviceTypes are the types as kubectl shows them.
var serviceTypes = [...]string{
	kubernetes.ClusterIP: "ClusterIP", kubernetes.NodePort: "NodePort", kubernetes.LoadBalancer: "LoadBalancer", kubernetes.ExternalName: "ExternalName",
}

// Service implements console.Cluster.
func (c shown) Service(n console.ServiceName) (console.Service, bool) {
	info, ok := c.Kubernetes.Service(n.Namespace, n.Name)
	if !ok {
		return console.Service{}, false
	}
	s := console.Service{ServiceName: n, Type: serviceTypes[info.Type], External: info.ExternalName, Published: info.Unready}
	if info.Headless {
		s.Type = "Headless"
	}
	for _, a := range info.ClusterIPs {
		s.Addresses = append(s.Addresses, a.String())
	}
	for _, p := range info.Ports {
		name := fmt.Sprintf("%d/%s", p.Number, strings.ToUpper(p.Protocol.String()))
		if p.Name != "" {
			name = p.Name + " " + name
		}
		s.Ports = append(s.Ports, name)
	}
	ready := map[netip.Addr]bool{} // slices may repeat an address
	for _, sl := range c.SlicesOf(n.Namespace, n.Name) {
		for i := range sl.Endpoints {
			e := &sl.Endpoints[i]
			ready[e.Addr] = ready[e.Addr] || e.Ready
		}
	}
	for _, r := range ready {
		s.Endpoints++
		if r {
			s.Ready++
		}
	}
	return s, true
}
