package explain

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/kubernetes"
)

// Cluster is a cluster whose names are explained.
type Cluster struct {
	kubernetes.Inspector
	Zones []string // without reverse zones, with a dot at the end; the first is the one that search lists have
	Pods  kubernetes.PodMode
	// PodNames says that endpoints without a hostname are named after their Pods, and not after their addresses.
	PodNames bool
}

// subject is what a name of a cluster is about.
type subject struct {
	cluster            *Cluster
	namespace, service string
	endpoint           string   // label of an endpoint, or ""
	port, protocol     string   // of _PORT._PROTOCOL, without underscores
	address            string   // dashed address of a Pod's name
	other              []string // labels that make no name of a cluster
}

// full is the name of a Service, or of what is below it, in full.
func (s *subject) full() string {
	name := s.service + "." + s.namespace + ".svc." + s.cluster.Zones[0]
	switch {
	case s.port != "":
		return "_" + s.port + "._" + s.protocol + "." + name
	case s.endpoint != "":
		return s.endpoint + "." + name
	}
	return name
}

func (s *subject) exists() (namespace, service bool) {
	namespace = s.cluster.hasNamespace(s.namespace)
	_, service = s.cluster.Service(s.namespace, s.service)
	return namespace, namespace && service
}

// cut takes the longest zone off a name with a dot at its end, and gives the labels before it.
func (c *Cluster) cut(name string) (labels []string, ok bool) {
	best := ""
	for _, z := range c.Zones {
		if (strings.EqualFold(name, z) || hasSuffixFold(name, "."+z)) && len(z) > len(best) {
			best = z
		}
	}
	if best == "" {
		return nil, false
	}
	rest := strings.Trim(name[:len(name)-len(best)], ".")
	if rest == "" {
		return nil, true
	}
	return strings.Split(rest, "."), true
}

func hasSuffixFold(s, suffix string) bool {
	return len(s) >= len(suffix) && strings.EqualFold(s[len(s)-len(suffix):], suffix)
}

// parse reads the labels before the zone of a fully qualified name.
func (c *Cluster) parse(labels []string) *subject {
	s := &subject{cluster: c}
	n := len(labels)
	switch {
	case n >= 2 && strings.EqualFold(labels[n-1], "pod"):
		s.namespace = labels[n-2]
		if n == 3 {
			s.address = labels[0]
			return s
		}
	case n >= 3 && strings.EqualFold(labels[n-1], "svc"):
		return c.inNamespace(labels[:n-2], labels[n-2])
	}
	s.other = labels
	return s
}

// inNamespace reads the labels before the namespace.
func (c *Cluster) inNamespace(labels []string, namespace string) *subject {
	n := len(labels)
	s := &subject{cluster: c, namespace: namespace, service: labels[n-1]}
	switch {
	case n == 1:
	case n == 2 && !underscored(labels[0]):
		s.endpoint = labels[0]
	case n == 3 && underscored(labels[0]) && underscored(labels[1]):
		s.port, s.protocol = labels[0][1:], labels[1][1:]
	default:
		s.other = labels
	}
	return s
}

func underscored(label string) bool { return strings.HasPrefix(label, "_") }

// subjectOf is what a fully qualified name is about, or nil if it is no name of a cluster.
func (e *Explainer) subjectOf(name string) *subject {
	for i := range e.Clusters {
		if labels, ok := e.Clusters[i].cut(name); ok {
			return e.Clusters[i].parse(labels)
		}
	}
	return nil
}

// meant is what the name as it was given was most likely meant to be, when no candidate exists: the first reading whose Service exists, or
// else whose namespace does, or else the first if the name can mean nothing but a name of the cluster. It is nil for a name outside.
func (e *Explainer) meant(name, from string) *subject {
	if len(e.Clusters) == 0 {
		return nil
	}
	c := &e.Clusters[0] // whose domain search lists have
	full := strings.TrimSuffix(name, ".") + "."
	if s := e.subjectOf(full); s != nil {
		c = s.cluster
	}
	labels, explicit := c.cut(full)
	if !explicit {
		if strings.HasSuffix(name, ".") {
			return nil
		}
		labels = strings.Split(name, ".")
	}
	if n := len(labels); n >= 2 && (strings.EqualFold(labels[n-1], "svc") || strings.EqualFold(labels[n-1], "pod")) {
		if n >= 3 || strings.EqualFold(labels[n-1], "pod") {
			return c.parse(labels)
		}
		labels = labels[:n-1]
		explicit = true
	}
	if slices.Contains(labels, "") || len(labels) == 0 {
		return nil
	}
	return best(c.readings(labels, from), explicit)
}

// readings are what labels can mean to a client in a namespace.
func (c *Cluster) readings(labels []string, from string) []*subject {
	n := len(labels)
	var out []*subject
	if n >= 2 && !underscored(labels[n-1]) && !underscored(labels[n-2]) || n >= 4 {
		out = append(out, c.inNamespace(labels[:n-1], labels[n-1]))
	}
	return append(out, c.inNamespace(labels, from))
}

// best is the reading that fits the cluster best, or nil if none does.
func best(readings []*subject, explicit bool) *subject {
	readings = slices.DeleteFunc(readings, func(s *subject) bool { return s.other != nil })
	var fallback *subject
	for _, s := range readings {
		namespace, service := s.exists()
		if service {
			return s
		}
		if namespace && fallback == nil && (s.endpoint == "" || explicit) {
			fallback = s
		}
	}
	if fallback != nil || len(readings) == 0 {
		return fallback
	}
	if explicit || readings[0].plausible(len(readings) == 1) {
		return readings[0]
	}
	return nil
}

// plausible says whether a subject in a namespace that does not exist was meant: as the only reading it is a Service of the client's own, and
// otherwise the namespace must be nearly one that exists.
func (s *subject) plausible(only bool) bool {
	return only && s.endpoint == "" && s.port == "" || nearest(s.namespace, s.cluster.NamespaceNames()) != ""
}

// nearest is directive.Nearest, and another name.
func nearest(word string, known []string) string {
	if n := directive.Nearest(word, known); !strings.EqualFold(n, word) {
		return n
	}
	return ""
}

// dashed is the address that a dashed label stands for.
func dashed(label string) (netip.Addr, bool) {
	for _, sep := range []string{".", ":"} {
		if a, err := netip.ParseAddr(strings.ReplaceAll(label, "-", sep)); err == nil {
			return a, true
		}
	}
	return netip.Addr{}, false
}
