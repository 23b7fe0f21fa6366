package whoami_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/whoami"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

func TestWhoami(t *testing.T) {
	t.Parallel()
	block := servertest.Block(".", server.Stage{Name: "whoami", Handler: whoami.New(whoami.Options{})})
	s := servertest.Start(t, block)
	for _, proto := range []string{"udp", "tcp"} {
		for _, typ := range []uint16{dns.TypeA, dns.TypeMX, dns.TypeANY} {
			r := s.Exchange(t, proto, servertest.Query("Example.org", typ, 0))
			if r.Rcode != dns.RcodeSuccess || !r.Authoritative || len(r.Answer) != 0 || len(r.Ns) != 0 || len(r.Extra) != 2 {
				t.Fatalf("%s over %s: %v", dns.TypeToString[typ], proto, r)
			}
			a, srv := r.Extra[0].(*dns.A), r.Extra[1].(*dns.SRV)
			if a.A.String() != "127.0.0.1" || a.Hdr.Name != "Example.org." || a.Hdr.Ttl != 0 {
				t.Errorf("over %s: %v", proto, a)
			}
			if want := fmt.Sprintf("_%s.Example.org.", proto); srv.Hdr.Name != want || srv.Port == 0 || srv.Target != "." {
				t.Errorf("over %s: %v", proto, srv)
			}
		}
	}
	long := strings.Repeat(strings.Repeat("a", 49)+".", 5)
	if r := s.Ask(t, long, dns.TypeA); len(r.Extra) < 1 || r.Rcode != dns.RcodeSuccess {
		t.Errorf("a name too long for another label: %v", r)
	}
}

func TestNoAllocs(t *testing.T) {
	block := servertest.Block(".", server.Stage{Name: "whoami", Handler: whoami.New(whoami.Options{})})
	servertest.NoAllocs(t, servertest.Query("example.org", dns.TypeA, 1232), block)
}
