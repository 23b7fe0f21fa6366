// Package servertest is what tests of handlers share: a server on loopback sockets around a chain, clients over every transport with
// miekg/dns as oracle, a scripted upstream, and the count of allocations per query.
package servertest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// patience bounds every exchange of a test; it is no pace, only an end.
const patience = 10 * time.Second

// Client is the address that Direct queries come from.
var Client = netip.MustParseAddrPort("127.0.0.1:40000")

// Server is a server under test on 127.0.0.1.
type Server struct {
	Addr   string
	Blocks []*server.Block
	server *server.Server
}

// Block makes a block of a zone around handlers, named by their stages.
func Block(zone string, chain ...server.Stage) *server.Block {
	z := wire.NewZone(wire.MustCanonical(zone))
	return &server.Block{Zone: z, ZoneName: z.String(), Server: "dns://:53", Chain: chain}
}

// Start serves blocks over UDP and TCP on a free port until the test ends.
func Start(t testing.TB, blocks ...*server.Block) *Server {
	t.Helper()
	s := server.New(limits(), strict())
	if err := s.Apply([]server.Listener{{Host: "127.0.0.1", Port: "0", Blocks: blocks}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return &Server{Addr: s.Addrs()["127.0.0.1:0"].String(), Blocks: blocks, server: s}
}

// Parked is how many queries wait.
func (s *Server) Parked() int64 { return s.server.Parked() }

// limits are the default ones, with buffers that are poisoned between queries.
func limits() server.Limits {
	l := server.DefaultLimits()
	l.Poison = true
	return l
}

// strict are hooks that do not let a handler's panic pass for SERVFAIL.
func strict() server.Hooks {
	return server.Hooks{Panic: func(v any, stack []byte) { panic(fmt.Sprintf("a handler panicked: %v\n%s", v, stack)) }}
}

// Query makes a question with RD set; edns 0 means no OPT record.
func Query(name string, typ uint16, edns uint16) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), typ)
	if edns > 0 {
		m.SetEdns0(edns, false)
	}
	return m
}

// Exchange asks over "udp" or "tcp" and gives the reply as miekg/dns reads it.
func (s *Server) Exchange(t testing.TB, proto string, m *dns.Msg) *dns.Msg {
	t.Helper()
	c := dns.Client{Net: proto, Timeout: patience, UDPSize: dns.MaxMsgSize}
	r, _, err := c.Exchange(m, s.Addr)
	if err != nil {
		t.Fatalf("%s %s over %s: %v", m.Question[0].Name, dns.TypeToString[m.Question[0].Qtype], proto, err)
	}
	return r
}

// Ask is Exchange of a plain question with EDNS over UDP and over TCP: both replies must agree in rcode and number of records unless the one by UDP is truncated.
// It gives the one by TCP.
func (s *Server) Ask(t testing.TB, name string, typ uint16) *dns.Msg {
	t.Helper()
	m := Query(name, typ, 1232)
	u, r := s.Exchange(t, "udp", m), s.Exchange(t, "tcp", m)
	if !u.Truncated && (u.Rcode != r.Rcode || len(u.Answer) != len(r.Answer) || len(u.Ns) != len(r.Ns) || len(u.Extra) != len(r.Extra)) {
		t.Errorf("%s %s differs between UDP and TCP:\n%v\n%v", name, dns.TypeToString[typ], u, r)
	}
	return r
}

// Direct asks blocks in process, without sockets.
func Direct(blocks ...*server.Block) *server.Direct {
	return server.New(limits(), strict()).Direct(blocks)
}

// Pack is the wire form of m.
func Pack(t testing.TB, m *dns.Msg) []byte {
	t.Helper()
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// NoAllocs fails the test if answering m takes memory once warmed up. It does nothing under the race detector, which allocates
// by itself.
func NoAllocs(t *testing.T, m *dns.Msg, blocks ...*server.Block) {
	t.Helper()
	d, msg := Direct(blocks...), Pack(t, m)
	if _, ok := d.Answer(msg, Client, server.UDP); !ok {
		t.Fatalf("no reply to %v", m.Question[0])
	}
	if RaceEnabled {
		return
	}
	if n := testing.AllocsPerRun(1000, func() { d.Answer(msg, Client, server.UDP) }); n != 0 {
		t.Errorf("%s %s: %v allocations per query, want 0", m.Question[0].Name, dns.TypeToString[m.Question[0].Qtype], n)
	}
}

// Upstream is a DNS server on 127.0.0.1 whose answers a test scripts, on UDP and TCP of the same port, until the test ends.
// A handler that writes nothing stays silent.
func Upstream(t testing.TB, h dns.HandlerFunc) string {
	t.Helper()
	for range 20 {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp", pc.LocalAddr().String())
		if err != nil {
			pc.Close() // the port is taken for TCP: try another
			continue
		}
		serve(t, &dns.Server{PacketConn: pc, Handler: h})
		serve(t, &dns.Server{Listener: ln, Handler: h})
		return pc.LocalAddr().String()
	}
	t.Fatal("no port is free for both UDP and TCP")
	return ""
}

func serve(t testing.TB, s *dns.Server) {
	started := make(chan struct{})
	s.NotifyStartedFunc = func() { close(started) }
	go func() { _ = s.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = s.Shutdown() })
}
