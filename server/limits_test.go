package server_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// stuck waits for what never comes, but for the name "now".
type stuck struct{ release chan struct{} }

func (stuck) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if q.Name.String() == "now." {
		return address(r, q)
	}
	return server.Wait
}

func (s stuck) AwaitAnswer(ctx context.Context, r *server.Reply, q *server.Query) server.Verdict {
	select {
	case <-s.release:
		return address(r, q)
	case <-ctx.Done():
		return r.Fail(ctx.Err())
	}
}

// TestTCPQueriesLimit: one connection whose queries wait does not get more of the waiting than is its share. What it sends besides is read when
// one of those is answered, and nothing is lost; somebody else is served meanwhile.
func TestTCPQueriesLimit(t *testing.T) {
	t.Parallel()
	const share, sent = 4, 20
	limits, hit := server.DefaultLimits(), make(chan server.Limit, 64)
	limits.TCPQueries = share
	s := server.New(limits, server.Hooks{Limit: func(l server.Limit) { hit <- l }})
	h := stuck{make(chan struct{})}
	if err := s.Apply([]server.Listener{{Host: "127.0.0.1", Port: "0", Blocks: []*server.Block{servertest.Block(".", stage(h))}}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shutdown(t.Context()) })
	addr := s.Addrs()["127.0.0.1:0"].String()
	greedy := dial(t, addr)
	for i := range sent {
		m := servertest.Query("never.", dns.TypeA, 0)
		m.Id = uint16(i)
		if err := greedy.WriteMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-hit; got != server.LimitTCPQueries {
		t.Errorf("limit %s", got)
	}
	if n := s.Parked(); n != share {
		t.Errorf("%d queries of one connection wait, want %d", n, share)
	}
	other := dial(t, addr)
	if err := other.WriteMsg(servertest.Query("now.", dns.TypeA, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := other.ReadMsg(); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	close(h.release)
	seen := map[uint16]bool{}
	for range sent {
		m, err := greedy.ReadMsg()
		if err != nil || seen[m.Id] || len(m.Answer) != 1 {
			t.Fatalf("after %d: %v, %v", len(seen), m, err)
		}
		seen[m.Id] = true
	}
}

// TestParkedPerClient: one client whose queries wait, by UDP and without a connection that could be held up, does not get all places.
func TestParkedPerClient(t *testing.T) {
	t.Parallel()
	const share = 4
	limits, hit := server.DefaultLimits(), make(chan server.Limit, 64)
	limits.Parked, limits.ParkedPerClient = 100, share
	s := server.New(limits, server.Hooks{Limit: func(l server.Limit) { hit <- l }})
	h := stuck{make(chan struct{})}
	if err := s.Apply([]server.Listener{{Host: "127.0.0.1", Port: "0", Blocks: []*server.Block{servertest.Block(".", stage(h))}}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shutdown(t.Context()) })
	from := func(ip string) *dns.Conn {
		d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(ip)}}
		c, err := d.Dial("udp", s.Addrs()["127.0.0.1:0"].String())
		if err != nil {
			t.Skipf("this machine has no %s: %v", ip, err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		return &dns.Conn{Conn: c}
	}
	send := func(c *dns.Conn) {
		if err := c.WriteMsg(servertest.Query("never.", dns.TypeA, 0)); err != nil {
			t.Fatal(err)
		}
	}
	greedy, others := from("127.0.0.1"), []*dns.Conn{from("127.0.0.2"), from("127.0.0.3"), from("127.0.0.4")}
	for range share + 1 {
		send(greedy)
	}
	if m, err := greedy.ReadMsg(); err != nil || m.Rcode != dns.RcodeServerFailure {
		t.Fatalf("one more than its share: %v, %v", m, err)
	}
	if got := <-hit; got != server.LimitParkedPerClient {
		t.Errorf("limit %s", got)
	}
	for _, c := range others {
		send(c)
	}
	close(h.release)
	refused := 0
	for _, c := range others {
		m, err := c.ReadMsg()
		if err != nil {
			t.Fatal(err)
		}
		if m.Rcode != dns.RcodeSuccess {
			refused++
		}
	}
	if refused > 1 { // one in a thousand has the same counter, and no two of three
		t.Errorf("%d others are refused", refused)
	}
	for range 3 { // the places are free again, as often as they are taken
		for range share {
			if m, err := greedy.ReadMsg(); err != nil || m.Rcode != dns.RcodeSuccess {
				t.Fatalf("what waited: %v, %v", m, err)
			}
		}
		for range share {
			send(greedy)
		}
	}
}

// TestLimitsAreCounted breaks the rest of the limits, one after the other, and looks for the count of each.
func TestLimitsAreCounted(t *testing.T) {
	t.Parallel()
	limits, hit := server.DefaultLimits(), make(chan server.Limit, 1024)
	limits.TCPIdle = 200 * time.Millisecond
	cert, roots := servertest.Certificate(t)
	s := server.New(limits, server.Hooks{Limit: func(l server.Limit) {
		select {
		case hit <- l:
		default:
		}
	}})
	loop := handler(func(r *server.Reply, q *server.Query) server.Verdict {
		if uint16(q.Type) != dns.TypeCNAME {
			return answerLarge(r, q)
		}
		_, _ = r.CNAME(server.Owner, 1, q.Name.Bytes())
		return server.Follow
	})
	b, short := []*server.Block{servertest.Block(".", stage(loop))}, server.Timeouts{Write: 50 * time.Millisecond}
	if err := s.Apply([]server.Listener{
		{Host: "127.0.0.1", Port: "0", Blocks: b, Timeouts: short},
		{Transport: server.HTTPS, Host: "127.0.0.1", Port: "0", Blocks: b, TLS: &tls.Config{Certificates: []tls.Certificate{cert}}},
	}); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		_ = s.Shutdown(t.Context())
	})
	plain, web := s.Addrs()["127.0.0.1:0"].String(), s.Addrs()["https://127.0.0.1:0"].String()
	for want, hurt := range map[server.Limit]func(t *testing.T){
		server.LimitFollows: func(t *testing.T) {
			c := dial(t, plain)
			if err := c.WriteMsg(servertest.Query("x.", dns.TypeCNAME, 0)); err != nil {
				t.Fatal(err)
			}
			if m, err := c.ReadMsg(); err != nil || m.Rcode != dns.RcodeServerFailure {
				t.Errorf("a chain without end: %v, %v", m, err)
			}
		},
		server.LimitTCPRead: func(t *testing.T) {
			c := dial(t, plain)
			if _, err := c.Conn.Write([]byte{0, 40, 1}); err != nil {
				t.Fatal(err)
			}
			_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.ReadAll(c.Conn); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		},
		server.LimitTCPWrite: func(t *testing.T) { askWithoutReading(t, plain) },
		server.LimitQuerySize: func(t *testing.T) {
			res, err := client.Post("https://"+web+"/dns-query", "application/dns-message", strings.NewReader(strings.Repeat("x", limits.QuerySize+1)))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("a body that is too long: %s", res.Status)
			}
			if res, err = client.Get("https://" + web + "/dns-query?dns=" + strings.Repeat("A", limits.QuerySize/3*4+4)); err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("a parameter that is too long: %s", res.Status)
			}
		},
	} {
		hurt(t)
		for deadline := time.After(20 * time.Second); ; {
			select {
			case got := <-hit:
				if got == want {
					deadline = nil
				}
			case <-deadline:
				t.Errorf("%s is not counted", want)
				deadline = nil
			}
			if deadline == nil {
				break
			}
		}
	}
}

// answerLarge fills 60 KB.
func answerLarge(r *server.Reply, _ *server.Query) server.Verdict {
	for range 240 {
		r.TXT(server.Answer, server.Owner, 1, strings.Repeat("x", 240))
	}
	return server.Done
}

// askWithoutReading asks until nothing more is taken.
func askWithoutReading(t *testing.T, addr string) {
	t.Helper()
	c := dial(t, addr)
	_ = c.SetWriteDeadline(time.Now().Add(20 * time.Second))
	for range 100_000 {
		if c.WriteMsg(servertest.Query("x.", dns.TypeTXT, 0)) != nil {
			return
		}
	}
	t.Error("a client that reads nothing is still served")
}
