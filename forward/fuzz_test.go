package forward

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// echoing is a connected datagram socket whose upstream replies with given bytes, under the id and, if they have the room, the
// question that was asked: what comes behind those is the upstream's to get wrong.
type echoing struct {
	net.Conn
	reply    []byte
	question bool
	in       chan []byte
	once     sync.Once
	closed   chan struct{}
}

func (e *echoing) Write(b []byte) (int, error) {
	r := append([]byte(nil), e.reply...)
	if e.question && len(r) >= len(b)-optLen {
		copy(r, b[:2])
		r[4], r[5] = 0, 1
		copy(r[12:], b[12:len(b)-optLen])
	}
	select {
	case e.in <- r:
	default:
	}
	return len(b), nil
}

func (e *echoing) Read(b []byte) (int, error) {
	select {
	case r := <-e.in:
		return copy(b, r), nil
	case <-e.closed:
		return 0, net.ErrClosed
	}
}

func (e *echoing) Close() error {
	e.once.Do(func() { close(e.closed) })
	return nil
}

// FuzzUpstreamReply: whatever an upstream sends, the client gets a reply that parses; one that is not marked as truncated holds all
// records that the upstream's message has.
func FuzzUpstreamReply(f *testing.F) {
	q := servertest.Query("www.example.org.", dns.TypeA, 0)
	for _, what := range []string{"answer", "empty", "many", "cut", "stops", "stops-whole", "trailing", "wrong-type", "bare", "garbage", "short", "question-back", "ede"} {
		b := compose(what, "192.0.2.1", q)
		f.Add(b, true)
		f.Add(b, false)
	}
	pointers := compose("answer", "192.0.2.1", q)
	copy(pointers[33:], "\xc0\x21") // the owner points at itself
	f.Add(pointers, true)
	soa := new(dns.Msg).SetReply(q)
	soa.Compress = true
	soa.Ns = []dns.RR{&dns.SOA{Hdr: dns.RR_Header{Name: "org.", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 60}, Ns: "a.org.", Mbox: "b.org."}}
	packed, err := soa.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed, true)
	query, err := q.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, reply []byte, question bool) {
		if len(reply) > bufferLen {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			out := withReply(t, query, reply, question)
			checkReply(t, out, query, reply, question)
		})
	})
}

// withReply asks through a handler whose upstream gives reply.
func withReply(t *testing.T, query, reply []byte, question bool) []byte {
	dial := func(_ context.Context, network string, _ netip.AddrPort, _ netip.Addr) (net.Conn, error) {
		if network != "udp" {
			return nil, syscall.ECONNREFUSED
		}
		return &echoing{reply: reply, question: question, in: make(chan []byte, 16), closed: make(chan struct{})}, nil
	}
	o, err := Parse(input("forward . 10.0.0.1 {\n max_fails 0\n prefer_udp\n}"))
	if err != nil {
		t.Fatal(err)
	}
	fwd := newForward([]Options{o}, NewMetrics(nil), quiet(), dial)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- fwd.Run(ctx) }()
	out, ok := servertest.Direct(servertest.Block(".", server.Stage{Name: "forward", Handler: fwd})).Answer(query, servertest.Client, server.TCP)
	if !ok {
		t.Error("no reply")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return out
}

// checkReply judges the client's reply. What is inside of RDATA is the upstream's business (RFC 3597): where miekg/dns cannot read what the
// upstream sent, it need not be able to read the reply.
func checkReply(t *testing.T, out, query, reply []byte, question bool) {
	h, err := wire.ParseHeader(out)
	if err != nil || h.ID != binary.BigEndian.Uint16(query) || h.QDCount != 1 || !bytes.Equal(out[12:len(query)], query[12:]) {
		t.Fatalf("reply %x to %x", out, query)
	}
	if _, err := wire.FindOPT(out, h, len(query)); err != nil {
		t.Fatalf("reply %x to %x does not parse: %v", out, reply, err)
	}
	if h.Flags.RCode() == wire.RCodeServFail || h.Flags&wire.FlagTC != 0 {
		return
	}
	if !question {
		t.Fatalf("%x was taken for the reply: %x", reply, out)
	}
	sent := append([]byte(nil), reply...)
	sent[4], sent[5] = 0, 1
	copy(sent[12:], query[12:])
	theirs, err := wire.ParseHeader(sent)
	if err != nil || h.ANCount != theirs.ANCount || h.NSCount != theirs.NSCount || h.ARCount != theirs.ARCount && h.ARCount+1 != theirs.ARCount {
		t.Fatalf("the upstream sent %+v, the client got %+v", theirs, h)
	}
	var a, b dns.Msg
	if a.Unpack(sent) == nil {
		if err := b.Unpack(out); err != nil || len(a.Answer) != len(b.Answer) {
			t.Fatalf("the upstream sent\n%v\nthe client got (%v)\n%v", &a, err, &b)
		}
	}
}
