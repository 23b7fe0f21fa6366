package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/servertest"
)

// zone is a zone that is served as if it were everything there is.
type zone struct {
	soa   dns.RR
	nodes map[string][]dns.RR // by lower-case owner
}

// startUpstream serves upstream.zone and gives the server's address.
func startUpstream(t *testing.T) string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "upstream.zone"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zone{nodes: map[string][]dns.RR{}}
	p := dns.NewZoneParser(f, "", "upstream.zone")
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		name := strings.ToLower(rr.Header().Name)
		z.nodes[name] = append(z.nodes[name], rr)
		if rr.Header().Rrtype == dns.TypeSOA {
			z.soa = rr
		}
	}
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	return servertest.Upstream(t, z.serve)
}

func (z *zone) serve(w dns.ResponseWriter, m *dns.Msg) {
	reply := new(dns.Msg)
	reply.SetReply(m)
	reply.RecursionAvailable = true
	z.answer(reply, strings.ToLower(m.Question[0].Name), m.Question[0].Qtype)
	size := dns.MaxMsgSize
	if w.RemoteAddr().Network() == "udp" {
		size = dns.MinMsgSize
		if opt := m.IsEdns0(); opt != nil {
			size = max(size, int(opt.UDPSize()))
		}
	}
	if opt := m.IsEdns0(); opt != nil {
		reply.SetEdns0(opt.UDPSize(), opt.Do())
	}
	reply.Truncate(size)
	_ = w.WriteMsg(reply)
}

// maxChain is longer than the zone's longest chain of CNAMEs.
const maxChain = 8

func (z *zone) answer(reply *dns.Msg, name string, typ uint16) {
	for range maxChain {
		rrs, ok := z.nodes[name]
		if !ok {
			reply.Rcode = dns.RcodeNameError
			break
		}
		var next string
		for _, rr := range rrs {
			switch {
			case rr.Header().Rrtype == typ:
				reply.Answer = append(reply.Answer, rr)
			case rr.Header().Rrtype == dns.TypeCNAME:
				reply.Answer = append(reply.Answer, rr)
				next = strings.ToLower(rr.(*dns.CNAME).Target)
			}
		}
		if name = next; name == "" {
			break
		}
	}
	if len(reply.Answer) == 0 {
		reply.Ns = append(reply.Ns, z.soa)
	}
}
