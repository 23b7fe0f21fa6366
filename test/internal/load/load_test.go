package load_test

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/test/internal/load"
)

// peer answers datagrams with what reply makes of them, or not at all where that is nothing.
func peer(t *testing.T, reply func(n int64, query []byte) []byte) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.(*net.UDPConn).SetReadBuffer(4 << 20)
	go func() {
		buf := make([]byte, 4096)
		for n := int64(0); ; n++ {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if r := reply(n, buf[:size]); r != nil {
				_, _ = conn.WriteTo(r, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}

func options(t *testing.T, addr string) load.Options {
	t.Helper()
	q := func(name string) load.Query {
		return load.Query{Wire: servertest.Pack(t, servertest.Query(name, dns.TypeA, 0)), MayFail: strings.HasPrefix(name, "may")}
	}
	return load.Options{Addr: addr, Rate: 1000, Sockets: 3, Late: time.Second,
		Queries: func(int) []load.Query { return []load.Query{q("a.example.org."), q("may.fail.example.org.")} }}
}

// TestAccount loses some queries, answers others wrongly, and some twice: the load says exactly how many.
func TestAccount(t *testing.T) {
	t.Parallel()
	var lost, failed, twice atomic.Int64
	addr := peer(t, func(n int64, q []byte) []byte {
		q[2] |= 0x80
		switch n % 10 {
		case 3:
			lost.Add(1)
			return nil
		case 5: // a reply with an id that nobody has asked under is none
			lost.Add(1)
			q[0] ^= 0x80
			return q
		case 7:
			q[3] |= dns.RcodeServerFailure
			if q[13] == 'a' { // the name that may not fail
				failed.Add(1)
			}
		case 8:
			q[3] |= dns.RcodeNameError
			twice.Add(1)
		}
		return q
	})
	l := load.Start(t, options(t, addr))
	l.AwaitAll(t)
	awaitSent(t, l, 300)
	l.Stop()
	if n := l.Sent(); n != l.Sent() {
		t.Error("it sends on after Stop")
	}
	r := l.Result()
	if r.Lost != lost.Load() || r.Wrong != failed.Load() || r.Lost == 0 || r.Wrong == 0 {
		t.Errorf("%s; want %d lost, %d failures", r, lost.Load(), failed.Load())
	}
	if r.Sent > r.Due+1 || r.Sent < 300 || r.Took <= 0 {
		t.Errorf("%s: %d were due", r, r.Due)
	}
}

// TestBetween asks nothing meanwhile, and all before has been answered.
func TestBetween(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	addr := peer(t, func(_ int64, q []byte) []byte {
		asked.Add(1)
		q[2] |= 0x80
		return q
	})
	l := load.Start(t, options(t, addr))
	awaitSent(t, l, 50)
	l.Between(func() {
		if sent, got := l.Sent(), asked.Load(); sent != got {
			t.Errorf("%d sent and %d received", sent, got)
		}
	})
	awaitSent(t, l, l.Sent()+50)
	l.Stop()
	if r := l.Result(); r.Lost != 0 || r.Wrong != 0 {
		t.Error(r)
	}
}

// TestNobodyThere counts what a closed port refuses as lost, or not as sent.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, conn.LocalAddr().String())
	o.Late = 50 * time.Millisecond
	l := load.Start(t, o)
	awaitSent(t, l, 10)
	conn.Close()
	awaitSent(t, l, l.Sent()+10)
	l.Stop()
	if r := l.Result(); r.Lost != r.Sent {
		t.Errorf("%s: all are lost", r)
	}
}

func awaitSent(t *testing.T, l *load.Load, n int64) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); l.Sent() < n; <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%d queries were sent, want %d", l.Sent(), n)
		}
	}
}
