package forward

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// miss gives a function that asks a handler whose upstream is in memory, always for the same.
func miss(tb testing.TB) (ask func()) {
	reply := compose("answer", "192.0.2.1", servertest.Query("www.example.org.", dns.TypeA, 0))
	dial := func(context.Context, string, netip.AddrPort, netip.Addr) (net.Conn, error) {
		return &echoing{reply: reply, question: true, in: make(chan []byte, 16), closed: make(chan struct{})}, nil
	}
	f := newForward([]Options{parsed(tb, "forward . 10.0.0.1")}, NewMetrics(nil), quiet(), dial)
	run(tb, f)
	d := servertest.Direct(servertest.Block(".", server.Stage{Name: "forward", Handler: f}))
	q := servertest.Pack(tb, servertest.Query("www.example.org.", dns.TypeA, 0))
	return func() {
		if r, ok := d.Answer(q, servertest.Client, server.UDP); !ok || r[3]&0xF != 0 {
			tb.Fatalf("reply %x", r)
		}
	}
}

// BenchmarkMiss is a query forwarded over UDP without the kernel's part: what is spent on top of two datagrams each way. Most of it is
// the waking of the goroutine that reads the reply, and of the one that asks here.
func BenchmarkMiss(b *testing.B) {
	ask := miss(b)
	b.ReportAllocs()
	for b.Loop() {
		ask()
	}
}
