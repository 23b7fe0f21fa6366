package explain

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterdns/clusterdns/cmd/clusterdns/snapshot"
	"github.com/clusterdns/clusterdns/plugin/console/ndots"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// This file is about what is not the cluster's: other directives, and names outside.

// override is the directive of the Corefile that answers instead of those that are expected to, or "".
func (c *Candidate) override() string {
	for i := range c.Answers {
		switch by := c.Answers[i].By; by {
		case "", "kubernetes", "k8s_external", "autopath", "cache", "forward":
		default:
			return by
		}
	}
	return ""
}

// addrs are the addresses that a candidate has.
func (c *Candidate) addrs() (out []netip.Addr) {
	for i := range c.Answers {
		out = append(out, c.Answers[i].addrs...)
	}
	return out
}

// behind is the Service that has the first address of a name which is not one of the cluster: a rewrite, hosts or an upstream server leads there. It is nil if there is none.
func (e *Explainer) behind(x *Explanation, c *Candidate) *subject {
	for _, a := range c.addrs() {
		for i := range e.Clusters {
			if n, ok := e.Clusters[i].Behind(a); ok {
				x.note("%s is an address of Service %s/%s", a, n.Namespace, n.Name)
				return &subject{cluster: &e.Clusters[i], namespace: n.Namespace, service: n.Name}
			}
		}
	}
	return nil
}

// noteDisagreement says that one of the two types is denied altogether.
func (x *Explanation) noteDisagreement(c *Candidate) {
	for i := range c.Answers {
		if a := &c.Answers[i]; a.RCode == "NXDOMAIN" {
			x.note("%s is NXDOMAIN though the name exists: musl (Alpine) takes that for no such name; it should be NOERROR without records", a.Type)
		}
	}
}

// turnedAway judges a lookup that acl does not let this client make.
func (x *Explanation) turnedAway() bool {
	for i := range x.Candidates {
		c := &x.Candidates[i]
		for j := range c.Answers {
			a := &c.Answers[j]
			if a.By != "acl" || a.found {
				continue
			}
			x.rule(Absent, "does not resolve for this client: the directive acl of the Corefile turns it away")
			x.note("%s %s: %s", strings.TrimSuffix(c.Name, "."), a.Type, strings.Join(append([]string{a.text()}, a.Reasons...), ", "))
			return true
		}
	}
	return false
}

// judgeOutside is for a name that does not resolve and is not one of the cluster.
func (e *Explainer) judgeOutside(x *Explanation) {
	failed, nobody := x.trouble()
	switch {
	case failed != "":
		x.Verdict.Kind, x.Verdict.Summary = Unknown, "could not be looked up: "+failed
		e.askUpstream(x, strings.TrimSuffix(x.Name, ".")+".")
	case isAddr(x.Name) && len(e.Clusters) > 0:
		x.rule(Absent, "is no address of a Service or endpoint of the cluster")
	case nobody:
		x.Verdict.Kind, x.Verdict.Summary = Unknown, "is not a name of the cluster, and upstream servers were not asked"
		e.noteDot(x)
		x.askInCluster(x.Name)
	default:
		e.judgeDenied(x)
	}
}

// judgeDenied is for a name outside whose every candidate is denied.
func (e *Explainer) judgeDenied(x *Explanation) {
	name, by := x.nodata(), x.Candidates[len(x.Candidates)-1].override()
	switch {
	case name != "":
		x.rule(Absent, "does not resolve: %s exists, but has no records of the types that are asked for", strings.TrimSuffix(name, "."))
	case len(e.Clusters) == 0:
		x.rule(Absent, "does not exist")
	case by != "":
		x.rule(Absent, "does not exist: the directive %s of the Corefile says so, and nobody else is asked", by)
	default:
		x.rule(Absent, "does not exist, neither in the cluster nor outside")
	}
	if len(e.Clusters) == 0 {
		x.next("clusterdns explain%s %s", x.client, quote(x.Name))
	}
	for _, r := range x.reasons() {
		x.note("%s", r)
	}
	e.noteDot(x)
}

// noteDot is for a name that is one of the cluster but for the dot at its end.
func (e *Explainer) noteDot(x *Explanation) {
	name, dot := strings.CutSuffix(x.Name, ".")
	if !dot {
		return
	}
	if s := e.meant(name, x.From); s != nil {
		if _, found := s.exists(); found {
			x.note("the dot at its end keeps the search list from being tried: without it, this is a name of Service %s/%s", s.namespace, s.service)
			x.again("%s", quote(name))
		}
	}
}

// askUpstream adds commands that ask those that the server itself asks for a name with a dot at its end, or else one that shows what the server says of them.
func (e *Explainer) askUpstream(x *Explanation, name string) {
	var servers []string
	if canonical, err := wire.ParseCanonical(name); err == nil {
		servers = e.upstreams(canonical)
	}
	for _, s := range servers[:min(len(servers), maxListed)] {
		if host, port, err := net.SplitHostPort(s); err == nil && port == dotPort {
			x.next("dig +tls @%s %s", quote(host), quote(name))
			continue
		}
		x.next("clusterdns explain -server %s %s", quote(s), quote(name))
	}
	if len(servers) == 0 {
		x.kubectl("-n kube-system logs -l k8s-app=kube-dns --tail=50")
	}
}

// dotPort is the port of DNS over TLS (RFC 7858), where nobody answers plain DNS.
const dotPort = "853"

// upstreams are the servers that names like this one are forwarded to.
func (e *Explainer) upstreams(name wire.Canonical) (servers []string) {
	var all []server.Upstream
	for _, f := range snapshot.Handlers[server.Forwarder](closest(e.blocks, func(b *server.Block) wire.Zone { return b.Zone }, name)) {
		all = append(all, f.Upstreams()...)
	}
	for _, u := range closest(all, server.Upstream.Zone, name) {
		if !slices.Contains(servers, u.String()) {
			servers = append(servers, u.String())
		}
	}
	return servers
}

// closest are those whose zone is the longest that a name is in.
func closest[T any](all []T, zone func(T) wire.Zone, name wire.Canonical) (out []T) {
	most := 0
	for _, t := range all {
		switch z := zone(t); {
		case !z.Contains(name):
		case len(out) == 0 || z.Labels() > most:
			most, out = z.Labels(), []T{t}
		case z.Labels() == most:
			out = append(out, t)
		}
	}
	return out
}

// askInCluster adds a command that asks the cluster's own DNS, which can be reached from a Pod alone.
func (x *Explanation) askInCluster(name string) {
	from := x.From
	if x.noFrom {
		from = "default"
	}
	option := ""
	if underscored(name) {
		option = "-type=srv "
	}
	x.kubectl("-n %s run -it --rm --restart=Never --image=busybox try -- nslookup %s%s", quote(from), option, quote(name))
}

// nodata is the last candidate that exists without records of the types that are asked for, or "".
func (x *Explanation) nodata() (name string) {
	for i := range x.Candidates {
		if c := &x.Candidates[i]; c.Outcome == ndots.NoData {
			name = c.Name
		}
	}
	return name
}

// trouble is the first failure, and whether there is a name that no directive answers.
func (x *Explanation) trouble() (failed string, nobody bool) {
	for i := range x.Candidates {
		for j := range x.Candidates[i].Answers {
			a := &x.Candidates[i].Answers[j]
			nobody = nobody || a.nobody
			if failed == "" && !a.nobody {
				failed = a.failure()
			}
		}
	}
	return failed, nobody
}

// failure is why there is no answer, or "".
func (a *Answer) failure() string {
	switch {
	case a.Error != "":
		return a.Error
	case a.NotAsked:
		return notAsked
	case a.RCode == "NOERROR" || a.RCode == "NXDOMAIN":
		return ""
	case len(a.Reasons) > 0:
		return a.RCode + ": " + a.Reasons[0]
	}
	return a.RCode
}
