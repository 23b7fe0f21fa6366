package forward

import (
	"net"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/servertest"
)

// TestIPv6Upstream: an upstream on the IPv6 loopback, by UDP and TCP.
func TestIPv6Upstream(t *testing.T) {
	t.Parallel()
	pc, err := net.ListenPacket("udp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	ln, err := net.Listen("tcp", pc.LocalAddr().String())
	if err != nil {
		pc.Close()
		t.Skipf("the port is taken for TCP: %v", err)
	}
	for _, s := range []*dns.Server{{PacketConn: pc, Handler: dns.HandlerFunc(wide)}, {Listener: ln, Handler: dns.HandlerFunc(wide)}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go func() { _ = s.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	s := serving(t, running(t, "forward . "+pc.LocalAddr().String()))
	if m := s.Exchange(t, "udp", servertest.Query("example.org.", dns.TypeA, 4096)); m.Truncated || len(m.Answer) != 200 {
		t.Errorf("got tc %v, %d answers", m.Truncated, len(m.Answer))
	}
}
