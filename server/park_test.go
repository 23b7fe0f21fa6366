package server_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// parker is a Parker.
type parker struct {
	waiter
	park func(p server.Parked, r *server.Reply, q *server.Query) bool
}

func (h parker) Park(p server.Parked, r *server.Reply, q *server.Query) bool { return h.park(p, r, q) }

// later is a Parker whose queries all go on together.
type later struct {
	t     *testing.T
	mu    sync.Mutex
	waits []func(t *server.Turn)
}

func (l *later) stage(v handler) server.Stage {
	never := waiter(func(context.Context, *server.Reply, *server.Query) server.Verdict {
		l.t.Error("a goroutine waits")
		return server.Done
	})
	return stage(parker{never, func(p server.Parked, r *server.Reply, q *server.Query) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waits = append(l.waits, func(t *server.Turn) { p.Resume(v(r, q), t) })
		return true
	}})
}

// arrived waits until n queries have come, and gives them.
func (l *later) arrived(n int) []func(t *server.Turn) {
	l.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); runtime.Gosched() {
		l.mu.Lock()
		waits := l.waits
		l.mu.Unlock()
		if len(waits) == n {
			return waits
		}
	}
	l.t.Fatalf("%d queries have not come", n)
	return nil
}

// resume goes on with n queries in one turn, once so many have come.
func (l *later) resume(n int) {
	l.t.Helper()
	turn := server.NewTurn()
	for _, f := range l.arrived(n) {
		f(turn)
	}
	turn.End()
}

// TestPark parks queries over UDP and over one TCP connection, and goes on with all of them in one turn. Each gets its own reply, and
// what it had said is still there: its name, and its EDNS options.
func TestPark(t *testing.T) {
	t.Parallel()
	const n = 200 // a socket's buffer has room for as many
	for _, proto := range []string{"udp", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			l := later{t: t}
			s := servertest.Start(t, servertest.Block(".", l.stage(echoOptions)))
			conn, err := net.Dial(proto, s.Addr)
			if err != nil {
				t.Fatal(err)
			}
			c := &dns.Conn{Conn: conn, UDPSize: 4096}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(2 * patience))
			for i := range n {
				m := servertest.Query(fmt.Sprintf("n%d.", i), dns.TypeA, 4096)
				m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_LOCAL{Code: 65001, Data: fmt.Appendf(nil, "option %d", i)}}
				if err := c.WriteMsg(m); err != nil {
					t.Fatal(err)
				}
			}
			l.resume(n)
			got := map[string]string{}
			for range n {
				m, err := c.ReadMsg()
				if err != nil {
					t.Fatalf("after %d replies: %v", len(got), err)
				}
				got[m.Question[0].Name] = strings.Join(m.Answer[0].(*dns.TXT).Txt, "")
			}
			for i := range n {
				if name, want := fmt.Sprintf("n%d.", i), fmt.Sprintf("option %d", i); !strings.HasSuffix(got[name], want) {
					t.Errorf("%s: %q", name, got[name])
				}
			}
		})
	}
}

// echoOptions answers with the EDNS options of the query.
func echoOptions(r *server.Reply, q *server.Query) server.Verdict {
	r.TXT(server.Answer, server.Owner, 1, string(q.EDNS.Options))
	return server.Done
}

// TestParkVerdicts: whatever a parked query's handler says, and whenever, comes to what AwaitAnswer would have come to.
func TestParkVerdicts(t *testing.T) {
	t.Parallel()
	say := func(v server.Verdict) func(server.Parked, *server.Reply, *server.Query) bool {
		return func(p server.Parked, _ *server.Reply, _ *server.Query) bool {
			p.Resume(v, p.Turn())
			return true
		}
	}
	meanwhile := func(p server.Parked, r *server.Reply, q *server.Query) bool {
		go p.Resume(address(r, q), nil)
		return true
	}
	for name, c := range map[string]struct {
		park   func(server.Parked, *server.Reply, *server.Query) bool
		want   string // rcode, or silence
		panics int32
	}{
		"done within Park": {func(p server.Parked, r *server.Reply, q *server.Query) bool {
			p.Resume(address(r, q), p.Turn())
			return true
		}, "NOERROR", 0},
		"done meanwhile":  {meanwhile, "NOERROR", 0},
		"passed on":       {say(server.Pass), "NOTZONE", 0},
		"dropped":         {say(server.Drop), "silence", 0},
		"not parked":      {func(server.Parked, *server.Reply, *server.Query) bool { return false }, "YXDOMAIN", 0},
		"a panic in Park": {func(server.Parked, *server.Reply, *server.Query) bool { panic("test") }, "SERVFAIL", 1},
		"a panic after Park": {func(p server.Parked, _ *server.Reply, _ *server.Query) bool {
			p.Panicked("test", nil, p.Turn())
			return true
		}, "SERVFAIL", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var panics atomic.Int32
			s := server.New(server.Limits{Parked: 1, QuerySize: 4096, Poison: true}, server.Hooks{Panic: func(any, []byte) { panics.Add(1) }})
			waits := waiter(func(_ context.Context, r *server.Reply, _ *server.Query) server.Verdict {
				r.SetRCode(dns.RcodeYXDomain)
				return server.Done
			})
			last := parker{park: func(p server.Parked, r *server.Reply, _ *server.Query) bool { // parks once more
				r.SetRCode(dns.RcodeNotZone)
				go p.Resume(server.Done, nil)
				return true
			}}
			d := s.Direct([]*server.Block{servertest.Block(".", stage(parker{waits, c.park}), stage(last))})
			for range 3 { // the one place for parked queries is free again each time
				got := "silence"
				if reply, ok := d.Answer(servertest.Pack(t, servertest.Query("x.", dns.TypeA, 0)), servertest.Client, server.UDP); ok {
					got = dns.RcodeToString[int(reply[3]&0xF)]
				}
				if got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
			}
			if panics.Load() != 3*c.panics {
				t.Errorf("%d panics counted", panics.Load())
			}
			if s.Parked() != 0 {
				t.Errorf("%d queries are parked", s.Parked())
			}
		})
	}
}

// TestShutdownWaitsForParked: a query that is parked without a goroutine is answered before the server ends.
func TestShutdownWaitsForParked(t *testing.T) {
	t.Parallel()
	l := later{t: t}
	s := server.New(server.DefaultLimits(), server.Hooks{})
	if err := s.Apply([]server.Listener{{Host: "127.0.0.1", Port: "0", Blocks: []*server.Block{servertest.Block(".", l.stage(address))}}}); err != nil {
		t.Fatal(err)
	}
	c, err := dns.Dial("udp", s.Addrs()["127.0.0.1:0"].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * patience))
	if err := c.WriteMsg(servertest.Query("x.", dns.TypeA, 0)); err != nil {
		t.Fatal(err)
	}
	l.arrived(1)
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	l.resume(1)
	if m, err := c.ReadMsg(); err != nil || len(m.Answer) != 1 {
		t.Errorf("%v, %v", m, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestRemovedListenerWaitsForItsOwn: a listener that is not served any more is closed when the queries that came by it are answered, however
// many others wait elsewhere.
func TestRemovedListenerWaitsForItsOwn(t *testing.T) {
	t.Parallel()
	const mine = 4 * time.Second // what drains is closed after 5 seconds in any case
	stays, goes := later{t: t}, later{t: t}
	s := server.New(server.DefaultLimits(), server.Hooks{})
	t.Cleanup(func() { _ = s.Shutdown(t.Context()) })
	first := server.Listener{Host: "127.0.0.1", Port: "0", Blocks: []*server.Block{servertest.Block(".", stays.stage(address))}}
	second := server.Listener{Host: "::1", Port: "0", Blocks: []*server.Block{servertest.Block(".", goes.stage(address))}}
	if err := s.Apply([]server.Listener{first, second}); err != nil {
		t.Fatal(err)
	}
	send := func(addr string) *dns.Conn {
		c, err := dns.Dial("udp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		if err := c.WriteMsg(servertest.Query("x.", dns.TypeA, 0)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	addr := s.Addrs()["[::1]:0"].String()
	a, b := send(s.Addrs()["127.0.0.1:0"].String()), send(addr)
	stays.arrived(1)
	goes.arrived(1)
	begin := time.Now()
	if err := s.Apply([]server.Listener{first}); err != nil {
		t.Fatal(err)
	}
	goes.resume(1)
	if m, err := b.ReadMsg(); err != nil || len(m.Answer) != 1 {
		t.Errorf("of the listener that goes: %v, %v", m, err)
	}
	for { // until its address is free
		if pc, err := net.ListenPacket("udp", addr); err == nil {
			pc.Close()
			break
		}
		if time.Since(begin) > mine {
			t.Errorf("%s is not closed after %s", addr, mine)
			break
		}
		runtime.Gosched()
	}
	stays.resume(1)
	if m, err := a.ReadMsg(); err != nil || len(m.Answer) != 1 {
		t.Errorf("of the listener that stays: %v, %v", m, err)
	}
}

// ender tells of the end of a turn.
type ender chan struct{}

func (e ender) EndTurn(*server.Turn) { close(e) }

// TestTurnOfDeafClient: what a query of a connection has begun is not held back while the replies behind it wait for a client that does not read. Others
// may wait for the same.
func TestTurnOfDeafClient(t *testing.T) {
	t.Parallel()
	ended, goesOn := make(ender), make(chan func(), 1)
	waits := parker{park: func(p server.Parked, r *server.Reply, q *server.Query) bool {
		p.Turn().AtEnd(ended)
		goesOn <- func() { p.Resume(address(r, q), nil) }
		return true
	}}
	s := server.New(server.DefaultLimits(), server.Hooks{})
	long := handler(func(r *server.Reply, q *server.Query) server.Verdict {
		if q.Type == wire.TypeA {
			return server.Pass
		}
		for range 200 { // 52 kB
			r.TXT(server.Answer, server.Owner, 1, strings.Repeat("x", 255))
		}
		return server.Done
	})
	if err := s.Apply([]server.Listener{{Host: "127.0.0.1", Port: "0", Blocks: []*server.Block{servertest.Block(".", stage(long), stage(waits))},
		Timeouts: server.Timeouts{Write: time.Minute}}}); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", s.Addrs()["127.0.0.1:0"].String())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	var all []byte
	for m := servertest.Pack(t, servertest.Query("x.", dns.TypeA, 0)); len(all) < 4000; {
		all = append(append(all, 0, byte(len(m))), m...)
		m = servertest.Pack(t, servertest.Query("x.", dns.TypeTXT, 0))
	}
	if _, err := conn.Write(all); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the turn has not ended")
	}
	conn.Close()
	(<-goesOn)()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
