package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// handler is a function as a Handler.
type handler func(r *server.Reply, q *server.Query) server.Verdict

func (h handler) Answer(r *server.Reply, q *server.Query) server.Verdict { return h(r, q) }

// waiter waits always, and then answers by its function.
type waiter func(ctx context.Context, r *server.Reply, q *server.Query) server.Verdict

func (waiter) Answer(*server.Reply, *server.Query) server.Verdict { return server.Wait }

func (w waiter) AwaitAnswer(ctx context.Context, r *server.Reply, q *server.Query) server.Verdict {
	return w(ctx, r, q)
}

func stage(h server.Handler) server.Stage { return server.Stage{Name: "test", Handler: h} }

// cnames answers name with a CNAME to target and follows it; anything else it passes.
func cnames(links map[string]string) handler {
	return func(r *server.Reply, q *server.Query) server.Verdict {
		to, ok := links[q.Name.Canonical().String()]
		if !ok {
			return server.Pass
		}
		target, err := wire.ParseName(to)
		if err != nil {
			return r.Fail(err)
		}
		r.SetAA()
		ref, _ := r.CNAME(server.Owner, 5, target)
		if err := q.SetTarget(target, ref); err != nil {
			return r.Fail(err)
		}
		return server.Follow
	}
}

// address answers every A question.
func address(r *server.Reply, q *server.Query) server.Verdict {
	r.A(server.Answer, server.Owner, 30, [4]byte{192, 0, 2, 7})
	return server.Done
}

func answers(m *dns.Msg) string {
	var out []string
	for _, rr := range m.Answer {
		out = append(out, strings.Join(strings.Fields(rr.String()), " "))
	}
	return strings.Join(out, "; ")
}

func TestFollow(t *testing.T) {
	t.Parallel()
	links := cnames(map[string]string{"a.one.": "b.one.", "b.one.": "C.two.", "loop.one.": "loop.one.", "lost.one.": "x.three."})
	for parked, last := range map[string]server.Handler{
		"inline": handler(address),
		"parked": waiter(func(_ context.Context, r *server.Reply, q *server.Query) server.Verdict { return address(r, q) }),
	} {
		s := servertest.Start(t, servertest.Block("one.", stage(links)), servertest.Block("two.", stage(last)))
		for _, c := range []struct {
			name, want string
			rcode      int
		}{
			{"a.one.", "a.one. 5 IN CNAME b.one.; b.one. 5 IN CNAME C.two.; C.two. 30 IN A 192.0.2.7", dns.RcodeSuccess},
			{"lost.one.", "lost.one. 5 IN CNAME x.three.", dns.RcodeServerFailure},
			{"loop.one.", strings.Repeat("loop.one. 5 IN CNAME loop.one.; ", server.MaxFollows) + "loop.one. 5 IN CNAME loop.one.", dns.RcodeServerFailure},
		} {
			r := s.Ask(t, c.name, dns.TypeA)
			if answers(r) != c.want || r.Rcode != c.rcode || !r.Authoritative {
				t.Errorf("%s, %s:\ngot  %s %s\nwant %s %s", parked, c.name, dns.RcodeToString[r.Rcode], answers(r), dns.RcodeToString[c.rcode], c.want)
			}
		}
	}
}

// TestWaitRunsNothingTwice parks a query in the middle of a chain: each handler is asked once, and the reply is the last one's.
func TestWaitRunsNothingTwice(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	note := func(name string, v server.Verdict) handler {
		return func(r *server.Reply, q *server.Query) server.Verdict {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, name)
			if v == server.Done {
				return address(r, q)
			}
			return v
		}
	}
	middle := waiter(func(_ context.Context, r *server.Reply, q *server.Query) server.Verdict {
		return note("middle", server.Pass)(r, q)
	})
	d := servertest.Direct(servertest.Block(".", stage(note("first", server.Pass)), stage(middle), stage(note("last", server.Done))))
	if _, ok := d.Answer(servertest.Pack(t, servertest.Query("x.", dns.TypeA, 0)), servertest.Client, server.UDP); !ok {
		t.Fatal("no reply")
	}
	if got := fmt.Sprint(asked); got != "[first middle last]" {
		t.Errorf("asked %s", got)
	}
}

// finish notes what it is called with.
type finish struct{ log *[]string }

func (f finish) Finish(r *server.Reply, q *server.Query, state uint64) {
	*f.log = append(*f.log, fmt.Sprintf("%d:%s:%d", state, r.RCode(), r.Count(server.Answer)))
}

type observe struct{ log *[]string }

func (o observe) Observe(r *server.Reply, q *server.Query) {
	*o.log = append(*o.log, fmt.Sprintf("observed %s by %q, %d faults, dropped %v", r.RCode(), r.By(), len(r.Faults()), r.Dropped()))
}

func TestFinishersAndObservers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		last handler
		want string
	}{
		{"done", address, `[2:NOERROR:1 1:NOERROR:1 observed NOERROR by "last", 0 faults, dropped false]`},
		{"failed", func(r *server.Reply, _ *server.Query) server.Verdict { return r.Fail(errors.New("no")) },
			`[2:SERVFAIL:0 1:SERVFAIL:0 observed SERVFAIL by "last", 1 faults, dropped false]`},
		{"passed", func(*server.Reply, *server.Query) server.Verdict { return server.Pass },
			`[2:SERVFAIL:0 1:SERVFAIL:0 observed SERVFAIL by "", 1 faults, dropped false]`},
		{"dropped", func(*server.Reply, *server.Query) server.Verdict { return server.Drop },
			`[2:NOERROR:0 1:NOERROR:0 observed NOERROR by "last", 0 faults, dropped true]`},
	} {
		var log []string
		register := handler(func(r *server.Reply, _ *server.Query) server.Verdict {
			r.OnFinish(finish{&log}, 1)
			r.OnFinish(finish{&log}, 2)
			return server.Pass
		})
		b := servertest.Block(".", server.Stage{Name: "first", Handler: register}, server.Stage{Name: "last", Handler: c.last})
		b.Observers = []server.Observer{observe{&log}}
		_, ok := servertest.Direct(b).Answer(servertest.Pack(t, servertest.Query("x.", dns.TypeA, 0)), servertest.Client, server.UDP)
		if got := fmt.Sprint(log); got != c.want || ok == (c.name == "dropped") {
			t.Errorf("%s: replied %v\ngot  %s\nwant %s", c.name, ok, got, c.want)
		}
	}
}

// TestExchange asks from within a chain: the rest of it, and all of it.
func TestExchange(t *testing.T) {
	t.Parallel()
	copyOf := func(from func(*server.Query) server.Rest, name string) waiter {
		return func(ctx context.Context, r *server.Reply, q *server.Query) server.Verdict {
			if q.Transport == server.Internal {
				return server.Pass
			}
			n, err := wire.ParseName(name)
			if err != nil {
				return r.Fail(err)
			}
			p := from(q).Exchange(ctx, server.Question{Name: n, Type: q.Type})
			if p.RCode() != wire.RCodeNoError {
				r.SetRCode(p.RCode())
				return server.Done
			}
			if err := r.Splice(p.Msg, server.Splice{Age: 10}); err != nil {
				return r.Fail(err)
			}
			return server.Done
		}
	}
	zones := func(from func(*server.Query) server.Rest, name string) *servertest.Server {
		return servertest.Start(t,
			servertest.Block("one.", stage(copyOf(from, name)), stage(handler(address))),
			servertest.Block("two.", stage(cnames(map[string]string{"a.two.": "b.one."}))))
	}
	for _, c := range []struct {
		what, asked, want string
		from              func(*server.Query) server.Rest
		rcode             int
	}{
		{"rest", "x.one.", "y.one. 20 IN A 192.0.2.7", (*server.Query).Rest, 0},
		{"start", "a.two.", "y.one. 0 IN CNAME b.one.; b.one. 20 IN A 192.0.2.7", (*server.Query).Start, 0},
		{"nowhere", "a.three.", "", (*server.Query).Start, dns.RcodeRefused},
	} {
		r := zones(c.from, c.asked).Ask(t, "y.one.", dns.TypeA)
		if answers(r) != c.want || r.Rcode != c.rcode {
			t.Errorf("%s: got %s %s, want %s", c.what, dns.RcodeToString[r.Rcode], answers(r), c.want)
		}
	}
}

// TestParkedLimit holds as many queries as may wait: one more is SERVFAIL at once, and those that wait are answered.
func TestParkedLimit(t *testing.T) {
	t.Parallel()
	const limit = 3
	release := make(chan struct{})
	limits := server.DefaultLimits()
	limits.Parked = limit
	rejected := make(chan struct{}, 1)
	s := server.New(limits, server.Hooks{Limit: func(l server.Limit) {
		if l == server.LimitParked {
			rejected <- struct{}{}
		}
	}})
	b := servertest.Block(".", stage(waiter(func(_ context.Context, r *server.Reply, q *server.Query) server.Verdict {
		<-release
		return address(r, q)
	})))
	if err := s.Apply([]server.Listener{{Host: "127.0.0.1", Port: "0", Blocks: []*server.Block{b}}}); err != nil {
		t.Fatal(err)
	}
	addr := s.Addrs()["127.0.0.1:0"].String()
	c, err := dns.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range limit + 1 {
		m := servertest.Query("x.", dns.TypeA, 0)
		m.Id = uint16(i)
		if err := c.WriteMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	<-rejected
	if m, err := c.ReadMsg(); err != nil || m.Rcode != dns.RcodeServerFailure {
		t.Errorf("over the limit: %v, %v, want SERVFAIL", m, err)
	}
	if n := s.Parked(); n != limit {
		t.Errorf("%d are parked, want %d", n, limit)
	}
	close(release)
	for range limit {
		if m, err := c.ReadMsg(); err != nil || m.Rcode != dns.RcodeSuccess {
			t.Errorf("a parked query: %v, %v", m, err)
		}
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestTCPPipelining sends queries on one connection, of which the first waits: the others are answered before it.
func TestTCPPipelining(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var once sync.Once
	s := servertest.Start(t,
		servertest.Block("slow.", stage(waiter(func(_ context.Context, r *server.Reply, q *server.Query) server.Verdict {
			<-release
			return address(r, q)
		}))),
		servertest.Block("fast.", stage(handler(address))))
	defer once.Do(func() { close(release) })
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	c := &dns.Conn{Conn: conn}
	defer c.Close()
	for _, name := range []string{"a.slow.", "b.fast.", "c.fast."} {
		if err := c.WriteMsg(servertest.Query(name, dns.TypeA, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"b.fast.", "c.fast.", "a.slow."} {
		if i == 2 {
			once.Do(func() { close(release) })
		}
		if m, err := c.ReadMsg(); err != nil || m.Question[0].Name != want || len(m.Answer) != 1 {
			t.Fatalf("reply %d: %v, %v, want %s", i, m, err, want)
		}
	}
}

// TestApply replaces what is served under the live sockets, adds a listener, keeps all when one cannot be bound, and drains.
func TestApply(t *testing.T) {
	t.Parallel()
	s := server.New(server.DefaultLimits(), server.Hooks{})
	listener := func(host string, last byte) server.Listener {
		h := handler(func(r *server.Reply, _ *server.Query) server.Verdict {
			r.A(server.Answer, server.Owner, 1, [4]byte{192, 0, 2, last})
			return server.Done
		})
		return server.Listener{Host: host, Port: "0", Blocks: []*server.Block{servertest.Block(".", stage(h))}}
	}
	if err := s.Apply([]server.Listener{listener("127.0.0.1", 1)}); err != nil {
		t.Fatal(err)
	}
	addr := s.Addrs()["127.0.0.1:0"].String()
	client, err := dns.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ask := func(want string) {
		t.Helper()
		u, err := dns.Exchange(servertest.Query("x.", dns.TypeA, 0), addr)
		if err != nil || answers(u) != want {
			t.Errorf("udp: %v, %v, want %s", u, err, want)
		}
		if err := client.WriteMsg(servertest.Query("x.", dns.TypeA, 0)); err != nil {
			t.Fatal(err)
		}
		if m, err := client.ReadMsg(); err != nil || answers(m) != want {
			t.Errorf("tcp connection of before: %v, %v, want %s", m, err, want)
		}
	}
	ask("x. 1 IN A 192.0.2.1")
	if err := s.Apply([]server.Listener{listener("127.0.0.1", 2), listener("127.0.0.2", 2)}); err != nil {
		t.Fatal(err)
	}
	ask("x. 1 IN A 192.0.2.2")
	if err := s.Apply([]server.Listener{listener("127.0.0.1", 3), listener("192.0.2.1", 3)}); err == nil || !strings.Contains(err.Error(), "192.0.2.1") {
		t.Errorf("an address that is not ours: %v", err)
	}
	ask("x. 1 IN A 192.0.2.2")
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := client.ReadMsg(); err == nil {
		t.Error("a connection outlived the server")
	}
	if err := s.Apply(nil); err == nil {
		t.Error("Apply after Shutdown: no error")
	}
}

// TestOrder asks many times for records in random order: each comes first equally often, whole and truncated.
func TestOrder(t *testing.T) {
	t.Parallel()
	const n, rounds = 60, 6000
	b := servertest.Block(".", stage(handler(func(r *server.Reply, _ *server.Query) server.Verdict {
		for _, i := range r.Order(n) {
			if !r.A(server.Answer, server.Owner, 1, [4]byte{192, 0, 2, byte(i)}) {
				break
			}
		}
		return server.Done
	})))
	b.Options.Shuffle = true
	for what, edns := range map[string]uint16{"truncated": 0, "whole": 1232} {
		d, msg := servertest.Direct(b), servertest.Pack(t, servertest.Query("x.", dns.TypeA, edns))
		var first [n]int
		for range rounds {
			reply, _ := d.Answer(msg, servertest.Client, server.UDP)
			var m dns.Msg
			if err := m.Unpack(reply); err != nil {
				t.Fatal(err)
			}
			if m.Truncated != (what == "truncated") {
				t.Fatalf("%s: TC %v", what, m.Truncated)
			}
			first[m.Answer[0].(*dns.A).A.To4()[3]]++
		}
		for i, k := range first { // 100 expected; 6 standard deviations are 60
			if k < 40 || k > 160 {
				t.Errorf("%s: record %d came first %d times of %d", what, i, k, rounds)
			}
		}
	}
}
