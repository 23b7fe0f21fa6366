package explain

import (
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/kubernetes"
)

// explainAbsence judges a name of the cluster that does not resolve.
func (s *subject) explainAbsence(e *Explainer, x *Explanation) {
	namespace, service := s.exists()
	switch {
	case s.failed(e, x):
	case !namespace:
		s.noNamespace(x)
	case s.address != "" || s.service == "":
		s.noPod(x)
	case !service:
		s.noService(x)
	case !s.tried(e, x):
		s.notTried(x)
	default:
		s.noRecords(e, x)
	}
}

// failed judges a lookup in which the cluster's own names fail.
func (s *subject) failed(e *Explainer, x *Explanation) bool {
	for i := range x.Candidates {
		c := &x.Candidates[i]
		if _, in := s.cluster.cut(c.Name); !in {
			continue
		}
		for j := range c.Answers {
			a := &c.Answers[j]
			switch {
			case a.failure() == "":
			case a.NotAsked:
				x.rule(Unknown, "leads to %s, which is outside the cluster and was %s", strings.TrimSuffix(a.chain[len(a.chain)-1], "."), notAsked)
				x.askInCluster(strings.TrimSuffix(c.Name, "."))
				s.show(x)
				return true
			case len(a.chain) > 0 && e.subjectOf(a.chain[len(a.chain)-1]) != nil && len(a.Reasons) > 0:
				x.rule(Absent, "does not resolve: %s", a.Reasons[0])
				x.Service = nil
				if b := s.show(x); b != nil {
					x.kubectl("-n %s get service %s -o jsonpath='{.spec.externalName}'", quote(b.info.Namespace), quote(b.info.Name))
				}
				return true
			case len(a.chain) > 0:
				x.rule(Unknown, "leads to %s, which could not be looked up: %s", strings.TrimSuffix(a.chain[len(a.chain)-1], "."), a.failure())
				e.askUpstream(x, a.chain[len(a.chain)-1])
				s.show(x)
				return true
			default:
				x.rule(Unknown, "could not be looked up: %s", a.failure())
				return true
			}
		}
	}
	return false
}

// show puts the Service into the explanation, if there is one.
func (s *subject) show(x *Explanation) *backing {
	b, ok := s.cluster.look(s.namespace, s.service)
	if ok {
		x.Service = b.report
	}
	return b
}

func (s *subject) noNamespace(x *Explanation) {
	x.rule(Absent, "does not resolve: there is no namespace %s", s.namespace)
	x.noFrom = x.noFrom && !strings.EqualFold(s.namespace, x.From) // it has been said
	if n := nearest(s.namespace, s.cluster.NamespaceNames()); n != "" {
		x.note("there is a namespace %s", n)
		if _, ok := s.cluster.Service(n, s.service); ok {
			x.Verdict.Notes[len(x.Verdict.Notes)-1] += ", which has a Service " + s.service
			x.again("%s.%s", quote(s.service), quote(n))
		}
	}
	if s.service != "" {
		s.elsewhere(x)
	}
	x.kubectl("get namespaces")
}

// elsewhere names the namespaces that have a Service of the name.
func (s *subject) elsewhere(x *Explanation) {
	var found []string
	for _, ns := range s.cluster.NamespaceNames() {
		if _, ok := s.cluster.Service(ns, s.service); ok && !strings.EqualFold(ns, s.namespace) {
			found = append(found, ns)
		}
	}
	if len(found) == 0 || len(x.Next) > 0 {
		return
	}
	x.note("a Service %s is in namespace %s: from elsewhere its name is %s.%s", s.service, strings.Join(found[:min(len(found), maxListed)], ", "), s.service, found[0])
	x.again("%s.%s", quote(s.service), quote(found[0]))
}

// hasNamespace says whether a namespace exists.
func (c *Cluster) hasNamespace(name string) bool {
	return slices.ContainsFunc(c.NamespaceNames(), func(n string) bool { return strings.EqualFold(n, name) })
}

// misspeltZone judges a name that looks like one of a cluster but for its domain.
func (e *Explainer) misspeltZone(x *Explanation) bool {
	labels := strings.Split(strings.TrimSuffix(x.Name, "."), ".")
	at := slices.IndexFunc(labels, func(l string) bool { return strings.EqualFold(l, "svc") || strings.EqualFold(l, "pod") })
	if at < 1 || e.subjectOf(strings.Join(labels, ".")+".") != nil { // the domain of one cluster may be near that of another
		return false
	}
	domain := strings.Join(labels[at+1:], ".")
	for i := range e.Clusters {
		var zones []string
		for _, z := range e.Clusters[i].Zones {
			zones = append(zones, strings.TrimSuffix(z, "."))
		}
		if zone := nearest(domain, zones); domain != "" && zone != "" {
			x.rule(Absent, "does not resolve: %s is no domain of the cluster; %s is", domain, zone)
			x.again("%s", quote(strings.Join(labels[:at+1], ".")+"."+zone))
			return true
		}
	}
	return false
}

// tried says whether one of the candidates is a name of the Service.
func (s *subject) tried(e *Explainer, x *Explanation) bool {
	return slices.ContainsFunc(x.Candidates, func(c Candidate) bool {
		at := e.subjectOf(c.Name)
		return at != nil && strings.EqualFold(at.service, s.service) && strings.EqualFold(at.namespace, s.namespace)
	})
}

// notTried is for a Service that exists, and a client that does not find it by a name as short as this.
func (s *subject) notTried(x *Explanation) {
	b := s.show(x)
	x.rule(Absent, "does not resolve: Service %s/%s exists, but none of the names that this client tries is its", b.info.Namespace, b.info.Name)
	x.note("its search list and ndots make none of it: the full name is %s", s.full())
	x.again("%s", quote(s.full()))
}

func (s *subject) noService(x *Explanation) {
	if s.endpoint == "" && s.port == "" && s.cluster.hasNamespace(s.service) {
		s.namespaceAlone(x)
		return
	}
	x.rule(Absent, "does not resolve: there is no Service %s in namespace %s", s.service, s.namespace)
	if n := nearest(s.service, s.cluster.ServiceNames(s.namespace)); n != "" {
		x.note("there is a Service %s", n)
		x.again("%s.%s", quote(n), quote(s.namespace))
	}
	s.elsewhere(x)
	x.kubectl("-n %s get services", quote(s.namespace))
}

// namespaceAlone judges the name of a namespace.
func (s *subject) namespaceAlone(x *Explanation) {
	x.rule(Absent, "does not resolve: %s is a namespace, and no Service of namespace %s", s.service, s.namespace)
	if names := s.cluster.ServiceNames(s.service); len(names) > 0 {
		x.note("the names of its Services have theirs before it, such as %s.%s", names[0], s.service)
	}
	x.kubectl("-n %s get services", quote(s.service))
}

func (s *subject) noPod(x *Explanation) {
	if s.address == "" {
		x.rule(Absent, "namespace %s exists, but is no name that resolves", s.namespace)
		return
	}
	addr, ok := dashed(s.address)
	switch {
	case s.cluster.Pods == kubernetes.PodsDisabled:
		x.rule(Absent, "does not resolve: names of Pods are disabled")
		x.note("the option pods of the directive kubernetes turns them on")
		return
	case !ok:
		x.rule(Absent, "does not resolve: %s is no IP address with dashes", s.address)
		return
	}
	x.rule(Absent, "does not resolve: no Pod of namespace %s has the address %s", s.namespace, addr)
	x.kubectl("get pods -A -o wide --field-selector status.podIP=%s", quote(addr.String()))
}

// noRecords is for names at or below a Service that exists.
func (s *subject) noRecords(e *Explainer, x *Explanation) {
	b := s.show(x)
	total, ready, published := b.counts(s)
	all, _, _ := b.counts(&subject{})
	switch {
	case b.info.Type == kubernetes.ExternalName && s.isService():
		s.noTarget(e, b, x)
	case s.port != "":
		s.noPort(b, x)
	case s.endpoint != "" && total == 0:
		x.rule(Absent, "does not resolve: Service %s/%s has no endpoint named %s", b.info.Namespace, b.info.Name, s.endpoint)
		s.noteEndpoints(b, x)
	case s.endpoint == "" && b.hasNoAddress():
		b.noAddress(x)
	case all == 0:
		b.judgeEmpty(x, Absent)
	case published == 0 && ready == 0:
		b.judgeUnready(s, x, Absent, total, published)
	default:
		x.rule(Absent, "exists, but has no records of the types that are asked for")
	}
}

// isService says whether the name is that of the Service itself, and of nothing below.
func (s *subject) isService() bool { return s.endpoint == "" && s.port == "" }

// hasNoAddress says whether the Service ought to have a cluster IP and has none.
func (b *backing) hasNoAddress() bool { return !b.info.Headless && len(b.info.ClusterIPs) == 0 }

func (b *backing) noAddress(x *Explanation) {
	x.rule(Absent, "does not resolve: the Service has no clusterIP")
	x.note("an API server gives it one when it is created; in a file it must be written, with None for a headless Service")
	x.kubectl("-n %s get service %s -o jsonpath='{.spec.clusterIPs}'", quote(b.info.Namespace), quote(b.info.Name))
}

// noTarget is for an ExternalName Service whose target does not exist, or the last of those that it leads to.
func (s *subject) noTarget(e *Explainer, b *backing, x *Explanation) {
	target := dns.CanonicalName(b.info.ExternalName)
	chain := []string{target}
	for i := range x.Candidates {
		for j := range x.Candidates[i].Answers {
			if c := x.Candidates[i].Answers[j].chain; len(c) > 0 && c[0] == target {
				chain = c
			}
		}
	}
	last := chain[len(chain)-1]
	x.rule(Absent, "is another name for %s, which does not exist", strings.TrimSuffix(strings.Join(chain, ", which is one for "), "."))
	x.Verdict.Summary = strings.ReplaceAll(x.Verdict.Summary, "., which is", ", which is")
	x.again("%s", quote(last))
	namespace, service := b.info.Namespace, b.info.Name
	if len(chain) > 1 { // the one that names what does not exist
		if at := e.subjectOf(chain[len(chain)-2]); at != nil && at.service != "" {
			namespace, service = at.namespace, at.service
		}
	}
	x.kubectl("-n %s get service %s -o jsonpath='{.spec.externalName}'", quote(namespace), quote(service))
}

func (s *subject) noPort(b *backing, x *Explanation) {
	x.rule(Absent, "does not resolve: Service %s/%s has no port named %s with protocol %s", b.info.Namespace, b.info.Name, s.port, strings.ToUpper(s.protocol))
	var names []string
	for _, p := range b.report.Ports {
		if p.Name != "" {
			names = append(names, p.Name+"/"+p.Protocol)
		}
	}
	if len(names) > 0 {
		x.note("it has %s", strings.Join(names[:min(len(names), maxListed)], ", "))
	}
	x.kubectl("-n %s get service %s -o jsonpath='{.spec.ports}'", quote(b.info.Namespace), quote(b.info.Name))
}

// noteEndpoints names the endpoints that there are.
func (s *subject) noteEndpoints(b *backing, x *Explanation) {
	var names []string
	for i := range b.report.Slices {
		for _, e := range b.report.Slices[i].Endpoints {
			names = append(names, e.label)
		}
	}
	if n := nearest(s.endpoint, names); n != "" && len(names) > maxListed {
		x.note("there is %s", n)
	}
	if len(names) > 0 {
		more := ""
		if len(names) > maxListed {
			more = " and others"
		}
		x.note("it has %s%s", strings.Join(names[:min(len(names), maxListed)], ", "), more)
	}
	x.kubectl("-n %s get endpointslices -l kubernetes.io/service-name=%s", quote(b.info.Namespace), quote(b.info.Name))
}
