package explain

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
)

// Answer is what came back for one question.
type Answer struct {
	Type    string   `json:"type"`
	RCode   string   `json:"rcode,omitempty"` // "" when there was no reply
	Records []string `json:"records,omitempty"`
	// By is the directive that answered; "" where that is not known, as from a server over the network.
	By string `json:"by,omitempty"`
	// Reasons are the texts of Extended DNS Errors (RFC 8914), or else what the directives say went wrong.
	Reasons []string `json:"reasons,omitempty"`
	Error   string   `json:"error,omitempty"`
	// NotAsked: the name, or what its CNAMEs lead to, is outside the cluster, and nobody is known who could be asked.
	NotAsked bool `json:"notAsked,omitempty"`

	found  bool         // it has records of the type
	addrs  []netip.Addr // of A and AAAA records
	chain  []string     // names that CNAMEs led to
	target string       // of the first PTR record
	nobody bool         // no directive answers the name
}

// Asker asks a DNS server one question.
type Asker interface {
	Ask(ctx context.Context, name string, typ uint16) Answer
}

// notAsked is NotAsked as text.
const notAsked = "not asked (no -conf or -server)"

// ednsSize is the largest reply over UDP that is taken: one that never fragments (DNS flag day 2020).
const ednsSize = 1232

func question(name string, typ uint16) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(name, typ)
	m.SetEdns0(ednsSize, false)
	return m
}

// read fills the answer from a reply.
func (a *Answer) read(m *dns.Msg) {
	a.RCode = dns.RcodeToString[m.Rcode]
	for _, rr := range m.Answer {
		data := strings.TrimPrefix(rr.String(), rr.Header().String())
		if c, ok := rr.(*dns.CNAME); ok {
			a.chain = append(a.chain, dns.CanonicalName(c.Target))
			data = "CNAME " + data
		}
		if addr := addressOf(data); addr.IsValid() {
			a.addrs = append(a.addrs, addr)
		}
		if p, ok := rr.(*dns.PTR); ok && a.target == "" {
			a.target = dns.CanonicalName(p.Ptr)
		}
		a.found = a.found || dns.TypeToString[rr.Header().Rrtype] == a.Type
		a.Records = append(a.Records, data)
	}
	slices.SortFunc(a.Records[len(a.chain):], compareData) // the server may shuffle them; CNAMEs stand before
	slices.SortFunc(a.addrs, netip.Addr.Compare)
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				a.Reasons = append(a.Reasons, reasonText(e))
			}
		}
	}
}

// compareData puts addresses in front, in their own order, and other data behind them, in that of their text.
func compareData(a, b string) int {
	x, y := addressOf(a), addressOf(b)
	if x.IsValid() != y.IsValid() {
		return y.BitLen() - x.BitLen()
	}
	return cmp.Or(x.Compare(y), strings.Compare(a, b))
}

// addressOf is the address that the data of an A or AAAA record is, or the zero Addr.
func addressOf(data string) netip.Addr {
	addr, err := netip.ParseAddr(data)
	if err != nil {
		return netip.Addr{}
	}
	return addr
}

// reasonText is the text of an Extended DNS Error, or the name of its code where it has none.
func reasonText(e *dns.EDNS0_EDE) string {
	if e.ExtraText != "" {
		return e.ExtraText
	}
	if s, ok := dns.ExtendedErrorCodeToString[e.InfoCode]; ok {
		return s
	}
	return fmt.Sprintf("code %d", e.InfoCode)
}

// Network asks a server over UDP, and over TCP after a truncated reply.
type Network struct {
	Addr string // with port
}

// networkPatience is what resolvers wait for one attempt (resolv.conf(5)).
const networkPatience = 5 * time.Second

// Ask implements Asker.
func (n Network) Ask(ctx context.Context, name string, typ uint16) Answer {
	a := Answer{Type: dns.TypeToString[typ]}
	for _, proto := range []string{"udp", "tcp"} {
		c := dns.Client{Net: proto, Timeout: networkPatience, UDPSize: ednsSize}
		m, _, err := c.ExchangeContext(ctx, question(name, typ), n.Addr)
		if err != nil {
			a.Error = err.Error()
			return a
		}
		if !m.Truncated || proto == "tcp" {
			a.read(m)
			return a
		}
	}
	return a
}

// inProcess asks the blocks of a listener by the code that answers on sockets. Metrics, log and errors do not see it.
type inProcess struct {
	mu     sync.Mutex
	direct *server.Direct
	client netip.AddrPort
	last   witness
}

// witness observes which directive answers, and what went wrong.
type witness struct {
	by     string
	faults []string
}

// Observe implements server.Observer.
func (w *witness) Observe(r *server.Reply, _ *server.Query) {
	w.by, w.faults = r.By(), nil
	for _, err := range r.Faults() {
		w.faults = append(w.faults, err.Error())
	}
}

// newInProcess asks blocks on behalf of a client.
func newInProcess(s *server.Server, blocks []*server.Block, client netip.Addr) *inProcess {
	p := &inProcess{client: netip.AddrPortFrom(client, 53535)} // any port: none is used
	watched := make([]*server.Block, len(blocks))
	for i, b := range blocks {
		c := *b // blocks that are served do not change
		c.Observers = []server.Observer{&p.last}
		c.Options.NoEDE = false
		watched[i] = &c
	}
	p.direct = s.Direct(watched)
	return p
}

// Ask implements Asker.
func (p *inProcess) Ask(_ context.Context, name string, typ uint16) Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := Answer{Type: dns.TypeToString[typ]}
	msg, err := question(name, typ).Pack()
	if err != nil {
		a.Error = err.Error()
		return a
	}
	p.last = witness{}
	reply, ok := p.direct.Answer(msg, p.client, server.TCP)
	var m dns.Msg
	switch {
	case !ok:
		a.Error, a.By = "the server drops the query", p.last.by
	case m.Unpack(reply) != nil:
		a.Error = "the reply is malformed"
	default:
		a.read(&m)
		a.By = p.last.by
		if len(a.Reasons) == 0 && m.Rcode == dns.RcodeServerFailure {
			a.Reasons = p.last.faults
		}
		a.nobody = a.By == "" && (m.Rcode == dns.RcodeServerFailure || m.Rcode == dns.RcodeRefused)
	}
	return a
}

// withPort completes a server's address with the port of DNS.
func withPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	return net.JoinHostPort(strings.Trim(addr, "[]"), "53")
}
