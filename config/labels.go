package config

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
)

// Zone is one zone that a server block serves on one port.
type Zone struct {
	Name      string // presentation form, lower case, fully qualified
	Port      string
	Transport string // "dns"
	at        directive.Arg
}

// String is the zone as CoreDNS writes it when it starts: ".:53", "tls://example.org.:853".
func (z Zone) String() string { return z.prefix() + z.Name + ":" + z.Port }

// prefix is the scheme in front of what is not plain DNS.
func (z Zone) prefix() string {
	if z.Transport == "dns" {
		return ""
	}
	return z.Transport + "://"
}

// scheme is what may stand before a label.
type scheme struct {
	name   string
	port   string // of labels without one; "" for that of the command line
	reason string // why it is not served, or ""
}

func schemes() []scheme {
	return []scheme{
		{name: "dns"},
		{name: "tls", port: "853"},
		{name: "https", port: "443"},
		{name: "https3", reason: "DNS over HTTP/3 is not served; use https://"},
		{name: "quic", reason: "DNS over QUIC is not served; use tls://"},
		{name: "grpc", reason: "DNS over gRPC is not served; use tls:// or https://"},
	}
}

// addressOf is the address that stands where a zone belongs, with or without a port.
func addressOf(label string) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(label); err == nil {
		return ap.Addr(), true
	}
	addr, err := netip.ParseAddr(strings.Trim(label, "[]"))
	return addr, err == nil
}

// parseLabels reads the labels of a server block. A network gives as many zones as it needs.
func (c *Config) parseLabels(labels []directive.Arg, port string) (zones []Zone, errs []error) {
	for _, l := range labels {
		s, text, err := splitScheme(l)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		names, p, err := directive.SplitZone(text)
		switch {
		case err != nil:
			errs = append(errs, l.Errorf("%w", err))
			continue
		case names[0] == "}.":
			errs = append(errs, l.Errorf("a closing brace without an opening one"))
			continue
		case p == "" && s.port != "":
			p = s.port
		case p == "":
			p = port
		}
		for _, n := range names {
			if addr, ok := addressOf(text); ok {
				c.warn(l, "%s is taken as the name of a zone; to listen on that address, write bind %s into the server block", addr, addr)
			} else if !preferred(n) {
				c.warn(l, "the zone %q is not of the form that names of hosts have (RFC 1123 2.1); is it meant?", n)
			}
			zones = append(zones, Zone{Name: n, Port: p, Transport: s.name, at: l})
		}
	}
	return zones, errs
}

func splitScheme(l directive.Arg) (s scheme, rest string, err error) {
	name, rest, ok := strings.Cut(l.Text, "://")
	if !ok {
		name, rest = "dns", l.Text
	}
	for _, s := range schemes() {
		switch {
		case s.name == name && s.reason == "":
			return s, rest, nil
		case s.name == name:
			return s, "", l.Errorf("%s: %s", l.Text, s.reason)
		}
	}
	return s, "", l.Errorf("%s: the scheme %q is not known; known are dns://, tls:// and https://", l.Text, name)
}

// preferred says whether a zone's labels are letters, digits and hyphens, maybe behind an underscore, or it is the root or a reverse zone.
// CoreDNS warns of others, and of labels that begin with a digit, which RFC 1123 2.1 allows, or an underscore.
func preferred(zone string) bool {
	reverse := strings.HasSuffix(zone, ".in-addr.arpa.") || strings.HasSuffix(zone, ".ip6.arpa.")
	if zone == "." || reverse {
		return true
	}
	for _, label := range strings.Split(strings.TrimSuffix(zone, "."), ".") {
		label = strings.TrimPrefix(label, "_") // of services, and zones such as _msdcs (RFC 8552)
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		if strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return true
}

// place is a zone on an address: what only one server block without a view may serve.
type place struct{ zone, host string }

func (p place) String() string {
	if p.host == "" {
		return p.zone
	}
	return p.zone + " on " + p.host
}

// overlaps finds zones that are served twice.
type overlaps struct {
	exact map[place]directive.Arg // where each was registered
	any   map[place]place         // one with the same zone and port, on whatever address; the key has no host
}

func newOverlaps() *overlaps {
	return &overlaps{map[place]directive.Arg{}, map[place]place{}}
}

// add registers zones on addresses ("" for all of them) and says which collide with earlier ones. Those of a block with a view are
// checked, but do not stand in the way of later ones: the view tells them apart.
func (o *overlaps) add(zones []Zone, hosts []string, view bool) (errs []error) {
	if len(hosts) == 0 {
		hosts = []string{""}
	}
	for _, z := range zones {
		for _, h := range hosts {
			p, bare := place{z.String(), h}, place{z.String(), ""}
			if err := o.check(z, p, bare); err != nil {
				errs = append(errs, err)
				continue
			}
			if !view {
				o.exact[p], o.any[bare] = z.at, p
			}
		}
	}
	return errs
}

func (o *overlaps) check(z Zone, p, bare place) error {
	if at, found := o.exact[p]; found {
		return z.at.Errorf("%s is served already, by the server block at %s:%d; tell them apart by port, bind or view", p, at.File, at.Line)
	}
	other, found := o.any[bare]
	_, wild := o.exact[bare]
	switch {
	case found && p.host == "":
		return z.at.Errorf("%s on all addresses collides with %s: give both server blocks a bind directive", p, other)
	case found && wild:
		return z.at.Errorf("%s collides with %s on all addresses: give both server blocks a bind directive", p, bare)
	}
	return nil
}

// placeholder finds a placeholder of a manifest that nobody filled in.
func placeholder(a directive.Arg) error {
	_, rest, found := strings.Cut(a.Text, "__PILLAR__")
	if !found {
		return nil
	}
	name := "__PILLAR__" + rest
	if i := strings.LastIndex(name, "__"); i > 0 {
		name = name[:i+2]
	}
	return a.Errorf("the placeholder %s has not been replaced: %s", name, pillarHint(name))
}

// pillarHint says what Kubernetes' manifests expect in a placeholder's place.
func pillarHint(name string) string {
	switch name {
	case "__PILLAR__DNS__DOMAIN__":
		return "write the cluster domain, such as cluster.local"
	case "__PILLAR__DNS__SERVER__":
		return "write the address of the kube-dns Service"
	case "__PILLAR__CLUSTER__DNS__":
		return "write the address of the Service in front of the cluster's DNS servers"
	case "__PILLAR__LOCAL__DNS__":
		return "write the address that the node-local server listens on"
	case "__PILLAR__UPSTREAM__SERVERS__":
		return "write the addresses of the upstream servers, or /etc/resolv.conf"
	}
	return fmt.Sprintf("write the value that %s stands for", name)
}
