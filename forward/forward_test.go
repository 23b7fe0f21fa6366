package forward

import (
	"net"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/servertest"
)

// answering is an upstream's handler that gives each name one A record.
func answering(addr string) dns.HandlerFunc {
	return func(w dns.ResponseWriter, m *dns.Msg) {
		r := new(dns.Msg).SetReply(m)
		r.RecursionAvailable = true
		r.Answer = append(r.Answer, &dns.A{
			Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60},
			A:   net.ParseIP(addr),
		})
		if m.IsEdns0() != nil {
			r.SetEdns0(1232, m.IsEdns0().Do())
		}
		_ = w.WriteMsg(r)
	}
}

// wide answers with many records, truncated where the client's size says so.
func wide(w dns.ResponseWriter, m *dns.Msg) {
	r := new(dns.Msg).SetReply(m)
	for i := range 200 {
		r.Answer = append(r.Answer, &dns.A{
			Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60},
			A:   net.IPv4(10, 0, 0, byte(i)),
		})
	}
	if w.LocalAddr().Network() == "udp" {
		r.Truncate(1232)
	}
	_ = w.WriteMsg(r)
}

func first(t *testing.T, m *dns.Msg) string {
	t.Helper()
	if m.Rcode != dns.RcodeSuccess || len(m.Answer) == 0 {
		t.Fatalf("no answer in\n%v", m)
	}
	return m.Answer[0].(*dns.A).A.String()
}

func TestForwardsOverUDP(t *testing.T) {
	t.Parallel()
	up := servertest.Upstream(t, answering("192.0.2.1"))
	s := serving(t, running(t, "forward . "+up))
	for range 20 {
		m := s.Exchange(t, "udp", servertest.Query("WWW.example.org.", dns.TypeA, 1232))
		if a := first(t, m); a != "192.0.2.1" || !m.RecursionAvailable || m.Authoritative || m.Answer[0].Header().Name != "WWW.example.org." {
			t.Fatalf("got\n%v", m)
		}
	}
}

func TestTruncatedIsAskedAgainOverTCP(t *testing.T) {
	t.Parallel()
	s := serving(t, running(t, "forward . "+servertest.Upstream(t, wide)))
	for _, edns := range []uint16{0, 1232, 4096} {
		m := s.Exchange(t, "udp", servertest.Query("wide.example.org.", dns.TypeA, edns))
		if whole := edns == 4096; m.Truncated == whole || whole && len(m.Answer) != 200 {
			t.Errorf("with EDNS size %d: tc %v, %d answers", edns, m.Truncated, len(m.Answer))
		}
	}
	if m := s.Exchange(t, "tcp", servertest.Query("wide.example.org.", dns.TypeA, 0)); m.Truncated || len(m.Answer) != 200 {
		t.Errorf("over TCP: tc %v, %d answers", m.Truncated, len(m.Answer))
	}
}

func TestClosedPortsAreServFailAtOnce(t *testing.T) {
	t.Parallel()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := pc.LocalAddr().String()
	pc.Close()
	s := serving(t, running(t, "forward . "+closed))
	m := s.Exchange(t, "udp", servertest.Query("example.org.", dns.TypeA, 1232))
	if m.Rcode != dns.RcodeServerFailure {
		t.Fatalf("got\n%v", m)
	}
	ede := m.IsEdns0().Option
	if len(ede) != 1 || !strings.Contains(ede[0].String(), "refused") {
		t.Errorf("EDE %v does not say why", ede)
	}
}
