package explain

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterdns/clusterdns/kubernetes"
)

// explainPresence judges a name of the cluster that resolves.
func (s *subject) explainPresence(x *Explanation) {
	if s.address != "" {
		x.rule(Works, "resolves to the address of a Pod in namespace %s", s.namespace)
		if s.cluster.Pods == kubernetes.PodsInsecure {
			x.note("pods insecure: the name resolves whether such a Pod exists or not")
		}
		return
	}
	b, ok := s.cluster.look(s.namespace, s.service)
	if !ok || s.other != nil {
		x.rule(Works, "resolves to a name of the cluster's own")
		return
	}
	x.Service = b.report
	if b.info.Type == kubernetes.ExternalName {
		x.rule(Unknown, "leads to %s, which could not be followed", b.info.ExternalName)
		return
	}
	b.judge(s, x)
}

// explainOverride judges the name of a Service that another directive answers with other addresses than the Service's. It says nothing where they are the Service's.
func (s *subject) explainOverride(x *Explanation, c *Candidate) bool {
	b, ok := s.cluster.look(s.namespace, s.service)
	if !ok || s.other != nil || b.info.Type == kubernetes.ExternalName {
		return false
	}
	for _, a := range c.addrs() {
		if slices.Contains(b.info.ClusterIPs, a) || slices.ContainsFunc(b.slices, func(sl kubernetes.SliceInfo) bool {
			return slices.ContainsFunc(sl.Endpoints, func(e kubernetes.Endpoint) bool { return e.Addr == a })
		}) {
			return false
		}
	}
	x.Service = b.report
	x.rule(Broken, "resolves, but not to Service %s/%s: the directive %s of the Corefile stands before it", b.info.Namespace, b.info.Name, c.override())
	x.kubectl("-n %s get service %s", quote(b.info.Namespace), quote(b.info.Name))
	return true
}

// judge says whether connecting to a Service whose name resolves will work.
func (b *backing) judge(s *subject, x *Explanation) {
	total, ready, published := b.counts(s)
	switch {
	case total == 0:
		b.judgeEmpty(x, Broken)
		return
	case ready == 0 && b.draining(s) > 0:
		b.judgeDraining(s, x)
		return
	case ready == 0:
		b.judgeUnready(s, x, Broken, total, published)
		return
	}
	if problem := b.portProblem(s); problem != nil {
		x.rule(Broken, "resolves, but port %s will not work: %s", portText(problem), problem.Problem)
		x.kubectl("-n %s get service %s -o jsonpath='{.spec.ports}'", quote(b.info.Namespace), quote(b.info.Name))
		if b.report.Selector != "none" && b.report.Selector != "unknown" {
			x.kubectl("-n %s get pods -l %s -o jsonpath='{.items[*].spec.containers[*].ports}'", quote(b.info.Namespace), quote(b.report.Selector))
		}
		return
	}
	b.judgeReady(s, x, total, ready)
}

// judgeReady is for a Service that has ready endpoints, at a port that leads there.
func (b *backing) judgeReady(s *subject, x *Explanation, total, ready int) {
	x.rule(Works, "resolves, and %s", readyText(ready, total))
	if s.endpoint != "" {
		x.Verdict.Summary = "resolves, and the endpoint is ready"
	}
	if !b.info.Headless && ready < total {
		x.note("the others get no connections")
	}
	switch {
	case b.info.Headless:
		b.noteHeadless(x, ready, total)
	case s.endpoint != "":
		b.notePorts(x, "the name is an endpoint's, and nothing translates ports there")
	default:
		b.noteFamilies(x)
	}
	x.note("NetworkPolicies are not looked at: they may keep namespace %s from it", x.From)
	x.kubectl("-n %s get networkpolicies", quote(b.info.Namespace))
	if try := b.try(s, strings.TrimSuffix(x.found(), ".")); try != "" {
		from := x.From
		if x.noFrom {
			from = b.info.Namespace
		}
		x.kubectl("-n %s run -it --rm --restart=Never --image=busybox try -- %s", quote(from), try)
	}
}

func readyText(ready, total int) string {
	switch {
	case ready == total && total == 1:
		return "its endpoint is ready"
	case ready == total && total == 2:
		return "both endpoints are ready"
	case ready == total:
		return fmt.Sprintf("all %d endpoints are ready", total)
	}
	return fmt.Sprintf("%d of %d endpoints are ready", ready, total)
}

// found is the candidate that resolves, or what an address is the address of, or the name.
func (x *Explanation) found() string {
	for i := range x.Candidates {
		c := &x.Candidates[i]
		if slices.ContainsFunc(c.Answers, func(a Answer) bool { return a.target != "" }) {
			return c.leadsTo()
		}
		if slices.ContainsFunc(c.Answers, func(a Answer) bool { return a.found }) {
			return c.Name
		}
	}
	return x.Name
}

// noteHeadless says what surprises people at headless Services.
func (b *backing) noteHeadless(x *Explanation, ready, total int) {
	switch {
	case ready < total && b.info.Unready:
		x.note("endpoints that are not ready are published too, because the Service has publishNotReadyAddresses: connections to them may fail")
	case ready < total:
		x.note("those that are not ready are left out of the answer")
	}
	b.notePorts(x, "a headless Service does not translate ports")
}

// notePorts says, and why, at which ports endpoints themselves are reached.
func (b *backing) notePorts(x *Explanation, why string) {
	for i := range b.report.Ports {
		p := &b.report.Ports[i]
		if len(p.LeadsTo) == 1 && p.LeadsTo[0] != p.Port {
			x.note("%s: connect to %d, not to %d", why, p.LeadsTo[0], p.Port)
		}
	}
}

// noteFamilies names addresses of the Service behind which no endpoint is ready, because those that are have another family: each leads to endpoints of its own
// (https://kubernetes.io/docs/concepts/services-networking/dual-stack/).
func (b *backing) noteFamilies(x *Explanation) {
	var families [2]bool
	for i := range b.slices {
		for j := range b.slices[i].Endpoints {
			if e := &b.slices[i].Endpoints[j]; e.Ready {
				families[family(e.Addr)] = true
			}
		}
	}
	for _, a := range b.info.ClusterIPs {
		if f := family(a); !families[f] {
			x.note("connections to %s will not work: no endpoint that is ready has an %s address", a, [...]string{"IPv4", "IPv6"}[f])
		}
	}
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// portProblem is the port that will not work: the one that the name asks for, or the first if none works.
func (b *backing) portProblem(s *subject) *Port {
	for i := range b.report.Ports {
		p := &b.report.Ports[i]
		if s.port != "" && !strings.EqualFold(p.Name, s.port) {
			continue
		}
		if p.Problem == "" {
			return nil
		}
		if s.port != "" {
			return p
		}
	}
	if s.port == "" && len(b.report.Ports) > 0 {
		return &b.report.Ports[0]
	}
	return nil
}

// try is the command that tries the first port that it can be seen to work from, or "": a UDP port says nothing on its own, but for that of DNS.
func (b *backing) try(s *subject, name string) string {
	if s.port != "" { // a name of SRV records, which has no address
		name = strings.Join(strings.Split(name, ".")[2:], ".")
	}
	for i := range b.report.Ports {
		p := &b.report.Ports[i]
		if p.Problem != "" || s.port != "" && !strings.EqualFold(p.Name, s.port) {
			continue
		}
		number := p.Port
		if (b.info.Headless || s.endpoint != "") && len(p.LeadsTo) > 0 {
			number = p.LeadsTo[0]
		}
		switch {
		case p.Protocol == "TCP":
			return fmt.Sprintf("nc -zv -w 3 %s %d", quote(name), number)
		case p.Protocol == "UDP" && number == 53:
			return fmt.Sprintf("nslookup kubernetes.default.svc.%s %s", strings.TrimSuffix(s.cluster.Zones[0], "."), quote(name))
		}
	}
	return ""
}

func portText(p *Port) string {
	if p.Name == "" {
		return fmt.Sprintf("%d/%s", p.Port, p.Protocol)
	}
	return fmt.Sprintf("%s (%d/%s)", p.Name, p.Port, p.Protocol)
}

// judgeEmpty is for a Service without endpoints.
func (b *backing) judgeEmpty(x *Explanation, k Kind) {
	text := "does not resolve: the Service has no endpoints"
	if k == Broken {
		text = "resolves, but nothing answers: the Service has no endpoints"
	}
	x.rule(k, "%s", text)
	ns, name := quote(b.info.Namespace), quote(b.info.Name)
	switch {
	case b.report.Selector == "none":
		x.note("it has no selector, so somebody must write its EndpointSlices, with the label kubernetes.io/service-name=%s", b.info.Name)
	case b.info.Labelled != nil && b.podsKnown:
		b.noteSelector(x)
	}
	if b.info.Labelled != nil {
		x.kubectl("-n %s get pods -l %s", ns, quote(b.report.Selector))
		x.kubectl("-n %s get pods --show-labels", ns)
		return
	}
	if b.report.Selector == "unknown" {
		x.kubectl("-n %s get service %s -o jsonpath='{.spec.selector}'", ns, name)
	}
	x.kubectl("-n %s get endpointslices -l kubernetes.io/service-name=%s", ns, name)
}

// noteSelector says what the selector matches and what it may have been meant to.
func (b *backing) noteSelector(x *Explanation) {
	if b.noteMatches(x) {
		return
	}
	x.note("its selector %s matches no Pod of namespace %s", b.report.Selector, b.info.Namespace)
	for _, k := range slices.Sorted(maps.Keys(b.info.Labelled)) {
		v := b.info.Labelled[k]
		var values []string
		count := map[string]int{}
		for i := range b.pods {
			if got, ok := b.pods[i].Labels[k]; ok {
				if count[got]++; count[got] == 1 {
					values = append(values, got)
				}
			}
		}
		if n := nearest(v, values); n != "" && count[v] == 0 {
			x.note("%s %s %s=%s: is that what was meant?", plural(count[n], "Pod"), verb(count[n], "has", "have"), k, n)
		}
	}
}

// noteMatches says why the Pods that the selector matches are no endpoints, if it matches any: an EndpointSlice has those that have an address and have
// not ended.
func (b *backing) noteMatches(x *Explanation) bool {
	matching, addressed := 0, 0
	var states []string
	for i := range b.pods {
		p := &b.pods[i]
		if !b.info.Selects(p.Labels) {
			continue
		}
		if matching++; len(p.IPs) > 0 {
			addressed++
		}
		if state := stateOf(p); !slices.Contains(states, state) {
			states = append(states, state)
		}
	}
	switch {
	case matching == 0:
		return false
	case addressed == 0:
		x.note("its selector %s matches %s that can get no connections: %s", b.report.Selector, plural(matching, "Pod"), strings.Join(states, ", "))
	default:
		x.note("its selector %s matches %s, but no EndpointSlice has them: the control plane may be behind", b.report.Selector, plural(matching, "Pod"))
	}
	return true
}

// stateOf is what kubectl shows of a Pod that is not up.
func stateOf(p *kubernetes.PodInfo) string {
	if p.Deleting {
		return "Terminating"
	}
	return cmp.Or(p.Phase, "Pending") // the API's default
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// draining is how many endpoints get connections though none is ready: those that are terminating and still serve, of a Service whose address kube-proxy
// serves (https://kubernetes.io/docs/reference/networking/virtual-ips/#traffic-to-terminating-endpoints).
func (b *backing) draining(s *subject) (n int) {
	if b.info.Headless || s.endpoint != "" {
		return 0
	}
	for i := range b.report.Slices {
		for j := range b.report.Slices[i].Endpoints {
			if e := &b.report.Slices[i].Endpoints[j]; e.Terminating && e.Serving {
				n++
			}
		}
	}
	return n
}

// judgeDraining is for a Service that works until its last Pods have ended.
func (b *backing) judgeDraining(s *subject, x *Explanation) {
	n := b.draining(s)
	x.rule(Works, "resolves, and connections go to %s still: no other is ready", plural(n, "endpoint")+verb(n, " that is terminating", " that are terminating"))
	x.note("once %s ended, nothing answers", verb(n, "it has", "they have"))
	if b.info.Labelled != nil {
		x.kubectl("-n %s get pods -l %s", quote(b.info.Namespace), quote(b.report.Selector))
	}
	x.kubectl("-n %s get events --sort-by=.lastTimestamp", quote(b.info.Namespace))
}

// judgeUnready is for a Service none of whose endpoints is ready, or none of those that the name stands for.
func (b *backing) judgeUnready(s *subject, x *Explanation, k Kind, total, published int) {
	state := b.unreadyText(s, total)
	switch {
	case k == Absent:
		x.rule(k, "does not resolve: %s", state)
	case published > 0:
		x.rule(k, "resolves, but %s: publishNotReadyAddresses shows it all the same", state)
	default:
		x.rule(k, "resolves, but nothing answers: %s", state)
	}
	for i := range b.report.Slices {
		for j := range b.report.Slices[i].Endpoints {
			e := &b.report.Slices[i].Endpoints[j]
			if e.Pod != "" && !e.Ready && (s.endpoint == "" || e.named(s.endpoint)) {
				x.kubectl("-n %s describe pod %s", quote(b.info.Namespace), quote(e.Pod))
				return
			}
		}
	}
	x.kubectl("-n %s get endpointslices -l kubernetes.io/service-name=%s -o yaml", quote(b.info.Namespace), quote(b.info.Name))
}

// unreadyText says of endpoints none of which is ready what they are.
func (b *backing) unreadyText(s *subject, total int) string {
	ending := 0
	for i := range b.report.Slices {
		for j := range b.report.Slices[i].Endpoints {
			if e := &b.report.Slices[i].Endpoints[j]; e.Terminating && (s.endpoint == "" || e.named(s.endpoint)) {
				ending++
			}
		}
	}
	switch {
	case total == 1 && ending == 1:
		return "its one endpoint is terminating"
	case total == 1:
		return "its one endpoint is not ready"
	case ending == total:
		return fmt.Sprintf("all %d endpoints are terminating", total)
	}
	return fmt.Sprintf("0 of %s are ready", plural(total, "endpoint"))
}

// quote makes a word one word of a shell.
func quote(word string) string {
	for _, c := range word {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("._-/=,:", c) {
			return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	if word == "" {
		return "''"
	}
	return word
}
