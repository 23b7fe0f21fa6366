package server_test

import (
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// TestSocketDrops fills the receive buffer while the only worker is held up, and wants the rest counted, after the socket is gone too.
func TestSocketDrops(t *testing.T) {
	t.Parallel()
	held, free := make(chan struct{}), make(chan struct{})
	first := true // one socket, one worker
	h := handler(func(r *server.Reply, q *server.Query) server.Verdict {
		if first {
			first = false
			close(held)
			<-free
		}
		return server.Drop
	})
	s := server.New(server.DefaultLimits(), server.Hooks{})
	if err := s.Apply([]server.Listener{{Host: "127.0.0.1", Port: "0", Sockets: 1, Blocks: []*server.Block{servertest.Block(".", stage(h))}}}); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("udp", s.Addrs()["127.0.0.1:0"].String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	msg := servertest.Pack(t, servertest.Query("a.example.", dns.TypeA, 0))
	send := func() {
		if _, err := conn.Write(msg); err != nil {
			t.Error(err)
		}
	}
	send()
	select {
	case <-held:
	case <-time.After(10 * time.Second):
		t.Fatal("the first query did not arrive")
	}
	for range 100_000 { // far more than any default buffer holds
		if send(); s.SocketDrops() >= 10 {
			break
		}
	}
	n := s.SocketDrops()
	if n < 10 {
		t.Errorf("%d drops counted, want 10", n)
	}
	close(free)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if after := s.SocketDrops(); after < n {
		t.Errorf("%d drops after the socket was closed, %d before", after, n)
	}
}
