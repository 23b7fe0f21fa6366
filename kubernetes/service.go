package kubernetes

import (
	"net/netip"
	"slices"
	"strings"
	"unique"

	"github.com/clusterdns/clusterdns/server/wire"
)

// form is how a Service is found in the DNS.
type form uint8

const (
	formClusterIP form = iota // by its own addresses
	formHeadless              // by those of its endpoints
	formExternal              // by another name
)

// svcData is what the index keeps of a Service. It is immutable.
type svcData struct {
	v4       [][4]byte
	v6       [][16]byte
	ports    []port
	target   string // formExternal: the wire form of the name, letter case kept; "" if it is no name
	external []External
	form     form
	typ      ServiceType
	unready  bool
	selector bool
}

// interned is a string that many objects have, such as "http": one copy for all of them, for as long as there are any.
type interned = unique.Handle[string]

// port is a port with its name folded, as labels of SRV names are compared.
type port struct {
	name   interned
	number uint16
	proto  Protocol
}

// newService prepares a Service for the index.
func newService(s *Service) *svcData {
	out := &svcData{ports: portsOf(s.Ports), external: s.External, typ: s.Type, unready: s.Unready, selector: s.Selector}
	switch {
	case s.Type == ExternalName:
		out.form = formExternal
		if _, err := netip.ParseAddr(s.ExternalName); err != nil {
			if name, err := wire.ParseName(s.ExternalName); err == nil {
				out.target = string(name)
			}
		}
	case s.Headless:
		out.form = formHeadless
	}
	for _, a := range s.ClusterIPs {
		if a.Is4() {
			out.v4 = append(out.v4, a.As4())
		} else {
			out.v6 = append(out.v6, a.As16())
		}
	}
	out.v4, out.v6 = slices.Clip(out.v4), slices.Clip(out.v6)
	return out
}

func portsOf(in []Port) []port {
	if len(in) == 0 {
		return nil
	}
	out := make([]port, len(in))
	for i, p := range in {
		out[i] = port{unique.Make(strings.ToLower(p.Name)), p.Number, p.Protocol}
	}
	return out
}

func (s *svcData) equal(o *svcData) bool {
	return s.form == o.form && s.typ == o.typ && s.unready == o.unready && s.selector == o.selector && s.target == o.target &&
		slices.Equal(s.v4, o.v4) && slices.Equal(s.v6, o.v6) && slices.Equal(s.ports, o.ports) && slices.Equal(s.external, o.external)
}

// object is the Service that s was made of.
func (s *svcData) object(namespace, name string) *Service {
	out := &Service{
		Namespace: namespace, Name: name, Type: s.typ, External: s.external,
		Headless: s.form == formHeadless, Unready: s.unready, Selector: s.selector,
	}
	for _, a := range s.v4 {
		out.ClusterIPs = append(out.ClusterIPs, netip.AddrFrom4(a))
	}
	for _, a := range s.v6 {
		out.ClusterIPs = append(out.ClusterIPs, netip.AddrFrom16(a))
	}
	for _, p := range s.ports {
		out.Ports = append(out.Ports, Port{p.name.Value(), p.number, p.proto})
	}
	if s.target != "" {
		out.ExternalName = wire.Canonical(s.target).String()
	}
	return out
}

// portQuery is what the labels _PORT._PROTOCOL of a name ask for; an empty one matches everything, as in CoreDNS.
type portQuery struct {
	name, proto []byte
}

// matches says whether a port is asked for.
func (m *portQuery) matches(p *port) bool {
	return (len(m.name) == 0 || string(m.name) == p.name.Value()) && (len(m.proto) == 0 || string(m.proto) == p.proto.String())
}

// count is how many of the ports are asked for.
func (m *portQuery) count(ports []port) int {
	n := 0
	for i := range ports {
		if m.matches(&ports[i]) {
			n++
		}
	}
	return n
}

// any says whether endpoints with these ports are asked for. Endpoints without ports are, by whoever asks for none in particular.
func (m *portQuery) any(ports []port) bool {
	return len(m.name) == 0 && len(m.proto) == 0 || m.count(ports) > 0
}

// named says whether one of the ports has a name and the protocol, so that _PROTOCOL.SERVICE is a name above that port's.
func named(ports []port, proto []byte) bool {
	return slices.ContainsFunc(ports, func(p port) bool { return p.name.Value() != "" && string(proto) == p.proto.String() })
}

// wireLabels is the folded wire form, without a root label, of what may be one label or several with dots between. ok is false if it
// cannot be part of a name.
func wireLabels(s string) (labels string, ok bool) {
	name, err := wire.ParseName(s)
	if err != nil || len(name) < 2 {
		return "", false
	}
	wire.Fold(name)
	return string(name[:len(name)-1]), true
}

// serviceKey is the key of a Service: its two labels as they stand in names. ok is false if they cannot.
func serviceKey(namespace, name string) (key string, ok bool) {
	if len(name) == 0 || len(name) > 63 || len(namespace) == 0 || len(namespace) > 63 {
		return "", false
	}
	b := make([]byte, 0, len(name)+len(namespace)+2)
	b = append(append(b, byte(len(name))), name...)
	b = append(append(b, byte(len(namespace))), namespace...)
	wire.Fold(b)
	return string(b), true
}

// splitKey is the reverse of serviceKey.
func splitKey(key string) (namespace, name string) {
	n := int(key[0]) + 1
	return key[n+1:], key[1:n]
}
