// Package explain is the subcommand of that name: it goes from a name as a client writes it to what stands behind it, and says whether connecting will work.
package explain

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/cmd/clusterdns/snapshot"
	"github.com/clusterdns/clusterdns/kubernetes"
)

const usage = `Usage: clusterdns explain [flags] NAME

Says what a name resolves to for a Pod, what stands behind it, and whether connecting will work.

  -from NAMESPACE   namespace of the client (default "default")
  -pod POD          the client: a Pod of that namespace, or NAMESPACE/POD; its own search list and ndots count
  -ndots N          ndots of the client (default 5)
  -search LIST      search list of the client, separated by commas (default NAMESPACE.svc.ZONE,svc.ZONE,ZONE)
  -zone ZONE        cluster domain (default cluster.local, or what the Corefile says)
  -o FORMAT         text or json (default text)

Where the cluster is looked at; without any, the cluster of the Pod, of $KUBECONFIG or of ~/.kube/config:
` + snapshot.Usage + `  -server ADDR      ask this DNS server and nothing else, port 53 unless given

Exit status:
  0  resolves, and nothing known speaks against connecting
  1  could not be found out
  2  wrong usage
  3  does not resolve
  4  resolves, but connecting will not work
`

// The exit status by verdict.
const (
	exitWorks = iota
	exitUnknown
	exitUsage
	exitAbsent
	exitBroken
)

// settings are the flags of the subcommand.
type settings struct {
	from, pod, zone, server, format string
	ndots                           int
	search                          []string
	source                          snapshot.Flags
	client                          []string // the flags that say who the client is, as they were given
}

// Run is the subcommand: args are what stands behind its name. It gives the exit status.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, name, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitWorks
	case err != nil:
		fmt.Fprintf(stderr, "clusterdns explain: %v\nTry 'clusterdns explain -h'.\n", err)
		return exitUsage
	}
	s.source.Log = snapshot.Remarks(stderr, "explain")
	x, err := s.explain(ctx, name)
	if err != nil {
		snapshot.Complain(stderr, "explain", err)
		return exitUnknown
	}
	if s.format == "json" {
		err = x.JSON(stdout)
	} else {
		err = x.Text(stdout, colourful(stdout))
	}
	if err != nil {
		fmt.Fprintf(stderr, "clusterdns explain: %v\n", err)
		return exitUnknown
	}
	return x.Verdict.Kind.exit()
}

func (k Kind) exit() int {
	switch k {
	case Works:
		return exitWorks
	case Absent:
		return exitAbsent
	case Broken:
		return exitBroken
	}
	return exitUnknown
}

func parse(args []string) (*settings, string, error) {
	s := &settings{}
	fs := flag.NewFlagSet("explain", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&s.from, "from", "", "")
	fs.StringVar(&s.pod, "pod", "", "")
	fs.StringVar(&s.zone, "zone", "", "")
	fs.StringVar(&s.server, "server", "", "")
	fs.StringVar(&s.format, "o", "text", "")
	fs.IntVar(&s.ndots, "ndots", -1, "")
	search := fs.String("search", "", "")
	s.source.Register(fs)
	names, err := interspersed(fs, args)
	if err != nil {
		return nil, "", err
	}
	s.client = aboutClient(fs)
	if *search != "" {
		s.search = strings.Split(*search, ",")
	}
	switch {
	case len(names) != 1:
		return nil, "", fmt.Errorf("one name must be given, not %d", len(names))
	case s.format != "text" && s.format != "json":
		return nil, "", fmt.Errorf("-o: unknown format %q; known are text, json", s.format)
	case !s.ndotsWithin():
		return nil, "", fmt.Errorf("-ndots: %d is not within 0 and 15", s.ndots)
	case s.server != "" && (s.source.Given() || s.pod != ""):
		return nil, "", errors.New("-server asks DNS alone: it goes with none of -manifests, -kubeconfig, -conf and -pod")
	}
	if err := errors.Join(checkName(names[0]), checkSearch(s.search)); err != nil {
		return nil, "", err
	}
	return s, names[0], s.source.Check()
}

// ndotsWithin says whether ndots, if it was given, is within the bounds of resolv.conf(5).
func (s *settings) ndotsWithin() bool {
	return s.ndots <= 15 && (s.ndots >= 0 || !slices.Contains(s.client, "-ndots"))
}

// aboutClient are the flags that were given of those that say who the client is.
func aboutClient(fs *flag.FlagSet) (out []string) {
	fs.Visit(func(f *flag.Flag) {
		if slices.Contains([]string{"from", "pod", "ndots", "search", "zone"}, f.Name) {
			out = append(out, "-"+f.Name, f.Value.String())
		}
	})
	return out
}

// interspersed parses flags before and behind other arguments, as the commands do that people come from.
func interspersed(fs *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		if fs.NArg() == 0 {
			return rest, nil
		}
		rest, args = append(rest, fs.Arg(0)), fs.Args()[1:]
	}
}

func (s *settings) explain(ctx context.Context, name string) (*Explanation, error) {
	r := Request{Name: name, From: s.from, NDots: s.ndots, Search: s.search, Flags: words(s.client)}
	if s.server != "" {
		return s.askServer(ctx, r)
	}
	snap, err := s.source.Open(ctx, s.zone)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	client := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if s.pod != "" {
		pod, err := findPod(snap, s.pod, s.from)
		if err != nil {
			return nil, err
		}
		if len(pod.IPs) > 0 {
			client = pod.IPs[0]
		}
		r.ask(pod)
	}
	e, err := New(snap.Server(), snap.Listeners(), client, func(h ClusterHandler) kubernetes.Inspector { return snap.Inspector(h.Options()) })
	if err != nil {
		return nil, err
	}
	e.Alone, e.Flags, e.Kubectl = !s.source.Configured(), words(s.source.Words()), words(s.source.Kubectl())
	if s.zone != "" {
		e.Zone = strings.TrimSuffix(s.zone, ".") + "."
	}
	r.NDots = usualNDots(r.NDots)
	return e.Explain(ctx, r)
}

// askServer explains by what a server over the network says, if there is one.
func (s *settings) askServer(ctx context.Context, r Request) (*Explanation, error) {
	n := Network{withPort(s.server)}
	e := &Explainer{Asker: n, Zone: strings.TrimSuffix(cmp.Or(s.zone, "cluster.local"), ".") + ".", Flags: words([]string{"-server", s.server})}
	for attempt := 1; ; attempt++ {
		a := n.Ask(ctx, e.Zone, dns.TypeSOA)
		if a.Error == "" {
			break
		}
		if ctx.Err() != nil {
			return nil, errors.New("interrupted")
		}
		if attempt == serverAttempts {
			return nil, fmt.Errorf("%s answers nothing: is a DNS server there?", n.Addr)
		}
	}
	r.NDots = usualNDots(r.NDots)
	return e.Explain(ctx, r)
}

// serverAttempts is how often a server is asked before it is given up: as often as resolvers do (resolv.conf(5)), for a datagram may be lost.
const serverAttempts = 2

// words are words of a shell with a space before each.
func words(all []string) string {
	var b strings.Builder
	for _, w := range all {
		b.WriteString(" " + quote(w))
	}
	return b.String()
}

func usualNDots(n int) int {
	if n < 0 {
		return DefaultNDots
	}
	return n
}

// findPod finds the Pod that -pod names.
func findPod(snap *snapshot.Snapshot, name, from string) (*kubernetes.PodInfo, error) {
	namespace, pod, ok := strings.Cut(name, "/")
	if !ok {
		namespace, pod = from, name
		if namespace == "" {
			namespace = "default"
		}
	}
	for _, v := range snap.Inventories() {
		pods, known := v.PodsOf(namespace)
		if !known {
			return nil, errors.New("-pod: Pods are not known, because the API server does not let them be listed or the manifests have none: say -from, -ndots and -search instead")
		}
		if i := slices.IndexFunc(pods, func(p kubernetes.PodInfo) bool { return p.Name == pod }); i >= 0 {
			return &pods[i], nil
		}
	}
	return nil, fmt.Errorf("-pod: there is no Pod %s in namespace %s", pod, namespace)
}

// resolverNDots is what resolvers take where resolv.conf has no ndots (resolv.conf(5)).
const resolverNDots = 1

// ask makes a Pod the client: what flags said before stays.
func (r *Request) ask(p *kubernetes.PodInfo) {
	r.From, r.Pod = p.Namespace, p.Name
	own := p.DNSPolicy == "None" // its resolv.conf has what its dnsConfig says, and nothing else
	switch n, err := strconv.Atoi(p.NDots); {
	case r.NDots >= 0:
	case err == nil:
		r.NDots = min(max(n, 0), 15)
	case own:
		r.NDots = resolverNDots
	}
	switch {
	case r.Search != nil:
	case own:
		r.Search = append([]string{}, p.Searches...)
	default:
		r.More = p.Searches
	}
	switch {
	case p.DNSPolicy == "Default" || p.DNSPolicy == "None":
		r.Notes = append(r.Notes, fmt.Sprintf("Pod %s has dnsPolicy %s: unless its nameservers are the cluster's, it does not see these answers", p.Name, p.DNSPolicy))
	case p.HostNetwork && p.DNSPolicy != "ClusterFirstWithHostNet":
		r.Notes = append(r.Notes, fmt.Sprintf("Pod %s is on its node's network without dnsPolicy ClusterFirstWithHostNet: it asks the node's nameservers and does not see these answers", p.Name))
	}
}
