package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/cmd/clusterdns/snapshot"
	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/plugin/console/ndots"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Explainer explains names. Its fields are set before it is used, and not changed then; it may be used concurrently.
type Explainer struct {
	Asker    Asker
	Clusters []Cluster // none where only DNS can be asked
	Zone     string    // that search lists are made of, with a dot at its end
	// Alone says that there is no configuration but the cluster: nobody answers names outside.
	Alone bool
	// Flags are those that commands to go on with need to see the same cluster, words of a shell; Kubectl are those of kubectl.
	Flags, Kubectl string

	blocks []*server.Block // that answer
}

// ClusterHandler is how a kubernetes directive is known in a chain.
type ClusterHandler interface {
	kubernetes.Inspector
	Zones() []wire.Zone
	Options() kubernetes.Options
	Detailed(ctx context.Context) kubernetes.Inspector
}

// New makes an Explainer of what is served: of the first listener for plain DNS that has a cluster, or else the first at all. Questions come from client.
// inspect says how to look into the cluster of a directive.
func New(s *server.Server, listeners []server.Listener, client netip.Addr, inspect func(ClusterHandler) kubernetes.Inspector) (*Explainer, error) {
	blocks := plainBlocks(listeners)
	if blocks == nil {
		return nil, errors.New("the configuration serves no plain DNS")
	}
	e := &Explainer{Asker: newInProcess(s, blocks, client), Zone: "cluster.local.", blocks: blocks}
	for _, h := range snapshot.Handlers[ClusterHandler](blocks) {
		c := Cluster{Inspector: inspect(h), Pods: h.Options().Pods, PodNames: h.Options().EndpointPodNames}
		for _, z := range h.Zones() {
			if name := z.String(); !strings.HasSuffix(name, ".arpa.") {
				c.Zones = append(c.Zones, name)
			}
		}
		if len(c.Zones) > 0 {
			e.Clusters = append(e.Clusters, c)
		}
	}
	if len(e.Clusters) > 0 {
		e.Zone = e.Clusters[0].Zones[0]
	}
	return e, nil
}

// plainBlocks are the blocks of the first listener for plain DNS that has a cluster, or else of the first one.
func plainBlocks(listeners []server.Listener) (blocks []*server.Block) {
	for i := range listeners {
		l := &listeners[i]
		switch {
		case l.Transport != server.UDP:
		case len(snapshot.Handlers[ClusterHandler](l.Blocks)) > 0:
			return l.Blocks
		case blocks == nil:
			blocks = l.Blocks
		}
	}
	return blocks
}

// Request is what is to be explained.
type Request struct {
	Name   string
	From   string   // namespace of the client; "" means default
	Pod    string   // of the client, or "": only said
	NDots  int      // of the client's resolv.conf
	Search []string // of the client's resolv.conf; nil for the cluster's own
	More   []string // domains behind the cluster's own, from the Pod's dnsConfig
	Notes  []string // what is known of the client already
	Flags  string   // that say who the client is, words of a shell, for commands to go on with
}

// DefaultNDots is the ndots that Pods have.
const DefaultNDots = 5

// Kind is what became of a name. Its text is what JSON has.
type Kind string

// The kinds of verdicts.
const (
	Works   Kind = "works"   // resolves, and nothing known speaks against connecting
	Unknown Kind = "unknown" // could not be found out
	Absent  Kind = "absent"  // does not resolve
	Broken  Kind = "broken"  // resolves, but connecting will not work
)

// Verdict is what became of a name and why.
type Verdict struct {
	Kind    Kind     `json:"kind"`
	Summary string   `json:"summary"`
	Notes   []string `json:"notes,omitempty"`
}

// Candidate is a name that the client's resolver tries.
type Candidate struct {
	Name    string        `json:"name"`
	Outcome ndots.Outcome `json:"outcome"`
	Answers []Answer      `json:"answers"`
}

// Explanation is everything that can be said of a name.
type Explanation struct {
	Name       string      `json:"name"`
	From       string      `json:"from"`
	Pod        string      `json:"pod,omitempty"`
	NDots      int         `json:"ndots"`
	Search     []string    `json:"search"`
	Candidates []Candidate `json:"candidates"`
	Service    *Service    `json:"service,omitempty"`
	Verdict    Verdict     `json:"verdict"`
	Next       []string    `json:"next,omitempty"` // commands to go on with

	flags, kube string // see Explainer
	client      string // see Request.Flags; "" if the client's namespace does not exist
	noFrom      bool   // the client's namespace was given, and does not exist
}

// maxName is the longest name that is explained, escapes counted; names themselves have at most 253 letters.
const maxName = 1024

func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return errors.New("a name must have between 1 and 253 letters")
	}
	if u, err := url.Parse(name); err == nil && u.Host != "" {
		return fmt.Errorf("%q is a URL, not a name: its name is %q", name, u.Hostname())
	}
	if host, port, err := net.SplitHostPort(name); err == nil && numeric(port) && !isAddr(name) {
		return fmt.Errorf("%q: a port is not part of a name: the name is %q", name, host)
	}
	if _, err := wire.ParseName(name); err != nil {
		return fmt.Errorf("%q cannot be a name: %w", name, err)
	}
	return checkSlash(name)
}

// checkSlash is for what kubectl and people write with a slash and DNS does not. Names with a slash and dots there are: those of RFC 2317.
func checkSlash(name string) error {
	before, after, _ := strings.Cut(name, "/")
	if before == "" || after == "" || strings.Contains(after, "/") || strings.Contains(name, ".") {
		return nil
	}
	switch before {
	case "svc", "service", "services":
		return fmt.Errorf("%q is not a name: the name of that Service is %q", name, after)
	case "po", "pod", "pods":
		return fmt.Errorf("%q is not a name: give the Pod's address, or the name of a Service", name)
	}
	return fmt.Errorf("%q is not a name: if %s is a namespace, that of the Service is %q", name, before, after+"."+before)
}

func checkSearch(domains []string) error {
	for _, d := range domains {
		if _, err := wire.ParseName(d); err != nil {
			return fmt.Errorf("the search list has %q, which cannot be a domain: %w", d, err)
		}
	}
	return nil
}

// Explain looks a name up as a client's resolver does, and says what comes of it. An error is a name, or a domain of the search list, that cannot be one.
func (e *Explainer) Explain(ctx context.Context, r Request) (*Explanation, error) {
	if err := checkName(r.Name); err != nil {
		return nil, err
	}
	if err := checkSearch(r.Search); err != nil {
		return nil, err
	}
	x := &Explanation{Name: r.Name, From: cmp.Or(r.From, "default"), Pod: r.Pod, NDots: r.NDots, Search: r.Search}
	if x.Search == nil {
		x.Search = append(clusterSearch(x.From, e.Zone), r.More...)
	}
	x.Verdict.Notes = slices.Clone(r.Notes)
	x.flags, x.kube = e.Flags, e.Kubectl
	if e.knows(x.From) {
		x.client = r.Flags
	} else {
		x.noFrom = r.From != ""
	}
	e.lookUp(ctx, x)
	e.judge(x)
	if x.noFrom {
		x.note("there is no namespace %s, in which the client is said to be", x.From)
	}
	return x, nil
}

// knows says whether a namespace exists, or may exist for all that is known.
func (e *Explainer) knows(namespace string) bool {
	return len(e.Clusters) == 0 || slices.ContainsFunc(e.Clusters, func(c Cluster) bool { return c.hasNamespace(namespace) })
}

// clusterSearch is the search list of Pods in a namespace.
func clusterSearch(namespace, zone string) []string {
	zone = strings.TrimSuffix(zone, ".")
	return []string{namespace + ".svc." + zone, "svc." + zone, zone}
}

// lookUp tries the candidates as glibc does.
func (e *Explainer) lookUp(ctx context.Context, x *Explanation) {
	rules := ndots.Resolvers()[0]
	names := rules.Candidates(x.Name, x.NDots, x.Search)
	asIsFirst := names[0] == dns.Fqdn(x.Name)
	types := []uint16{dns.TypeA, dns.TypeAAAA}
	if underscored(x.Name) {
		types = []uint16{dns.TypeSRV}
	}
	if reverse, err := dns.ReverseAddr(x.Name); err == nil { // an address is meant, and not a name of numbers
		names, types = []string{reverse}, []uint16{dns.TypePTR}
	}
	for i := 0; i < len(names) && ctx.Err() == nil; {
		c := Candidate{Name: names[i]}
		for _, t := range types {
			a := e.Asker.Ask(ctx, c.Name, t)
			e.unasked(&a)
			c.Answers = append(c.Answers, a)
		}
		c.Outcome = outcome(c.Answers)
		x.Candidates = append(x.Candidates, c)
		i = rules.Next(c.Outcome, i, len(names), asIsFirst)
	}
}

// unasked corrects the answer for a name outside of a cluster that stands alone: its server would have an upstream server, and
// SERVFAIL is what it says without.
func (e *Explainer) unasked(a *Answer) {
	if e.Alone && a.RCode == "SERVFAIL" && (a.nobody || len(a.chain) > 0 && e.subjectOf(a.chain[len(a.chain)-1]) == nil) {
		a.RCode, a.Reasons, a.NotAsked = "", nil, true
	}
}

// outcome is what a resolver makes of the answers for one candidate.
func outcome(all []Answer) ndots.Outcome {
	out := ndots.NXDomain
	for i := range all {
		a := &all[i]
		switch {
		case a.found:
			return ndots.Found
		case a.Error != "":
			out = ndots.Silent
		case a.RCode != "NOERROR" && a.RCode != "NXDOMAIN" && out != ndots.Silent:
			out = ndots.Failed
		case a.RCode == "NOERROR" && out == ndots.NXDomain:
			out = ndots.NoData
		}
	}
	return out
}

// judge comes to a verdict.
func (e *Explainer) judge(x *Explanation) {
	if len(x.Candidates) == 0 {
		x.Verdict.Kind, x.Verdict.Summary = Unknown, "interrupted"
		return
	}
	last := &x.Candidates[len(x.Candidates)-1]
	if last.Outcome == ndots.Found {
		e.judgeFound(x, last)
		return
	}
	if x.turnedAway() || e.misspeltZone(x) {
		return
	}
	if s := e.meant(x.Name, x.From); s != nil && !isAddr(x.Name) {
		s.explainAbsence(e, x)
		return
	}
	e.judgeOutside(x)
}

func isAddr(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}

// judgeFound looks at what stands behind a name that resolves.
func (e *Explainer) judgeFound(x *Explanation, c *Candidate) {
	name := c.leadsTo()
	if name != c.Name {
		e.noteAlias(x, c.Name, strings.TrimSuffix(name, "."))
	}
	by := c.override()
	if by != "" {
		x.note("the directive %s of the Corefile answers it: nobody else is asked", by)
	}
	x.noteDisagreement(c)
	s := e.subjectOf(name)
	if s == nil && !isAddr(x.Name) {
		s = e.behind(x, c)
	}
	switch {
	case s != nil && by != "" && s.explainOverride(x, c):
	case s != nil:
		s.explainPresence(x)
	default:
		e.judgeElsewhere(x, c, name)
	}
}

// judgeElsewhere is for a name that leads to another outside the cluster.
func (e *Explainer) judgeElsewhere(x *Explanation, c *Candidate, name string) {
	switch {
	case isAddr(x.Name):
		x.rule(Works, "is the address of %s, which is outside the cluster", strings.TrimSuffix(name, "."))
	case name != c.Name:
		x.rule(Works, "leads to %s, which is outside the cluster and resolves", strings.TrimSuffix(name, "."))
	case len(e.Clusters) == 0:
		x.rule(Works, "resolves; only DNS was asked, so whether anything answers at the address is not known")
		x.next("clusterdns explain%s %s", x.client, quote(x.Name))
	default:
		x.rule(Works, "resolves to addresses outside the cluster")
		if n := len(x.Candidates); n > 1 {
			x.note("%s tried before it: write %s with a dot at its end, or lower ndots", plural(n-1, "other name")+verb(n-1, " was", " were"), x.Name)
		}
	}
}

// leadsTo is the name that the last CNAME or the first PTR record leads to, or the candidate's own.
func (c *Candidate) leadsTo() string {
	for i := range c.Answers {
		if t := c.Answers[i].target; t != "" {
			return t
		}
		if chain := c.Answers[i].chain; c.Answers[i].found && len(chain) > 0 {
			return chain[len(chain)-1]
		}
	}
	return c.Name
}

// noteAlias says what surprises people at ExternalName Services.
func (e *Explainer) noteAlias(x *Explanation, name, target string) {
	s := e.subjectOf(name)
	if s == nil {
		return
	}
	if svc, ok := s.cluster.Service(s.namespace, s.service); ok && svc.Type == kubernetes.ExternalName {
		x.note("Service %s/%s is of type ExternalName: it is another name for %s", svc.Namespace, svc.Name, target)
		x.note("TLS certificates and HTTP servers there know the other name, not this one")
	}
}

// reasons are what the server says, each once.
func (x *Explanation) reasons() (out []string) {
	for i := range x.Candidates {
		for _, a := range x.Candidates[i].Answers {
			for _, r := range a.Reasons {
				if !slices.Contains(out, r) && !strings.HasPrefix(r, "search-path candidate") {
					out = append(out, r)
				}
			}
		}
	}
	return out
}

func (x *Explanation) note(format string, args ...any) {
	x.Verdict.Notes = append(x.Verdict.Notes, fmt.Sprintf(format, args...))
}

// again adds a command that explains another name of the same cluster to the same client.
func (x *Explanation) again(format string, args ...any) {
	x.next("%s", "clusterdns explain"+x.flags+x.client+" "+fmt.Sprintf(format, args...))
}

// kubectl adds a command of kubectl for the same cluster.
func (x *Explanation) kubectl(format string, args ...any) {
	x.next("%s", "kubectl"+x.kube+" "+fmt.Sprintf(format, args...))
}

func (x *Explanation) next(format string, args ...any) {
	x.Next = append(x.Next, fmt.Sprintf(format, args...))
}

func (x *Explanation) rule(k Kind, format string, args ...any) {
	x.Verdict.Kind, x.Verdict.Summary = k, fmt.Sprintf(format, args...)
}
