package server_test

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// TestQueriesWaitInTheSocket: what comes while a worker has no time is answered later. 450 queries are more than a socket holds by default, and less than
// it holds with whatever net.core.rmem_max the system has.
func TestQueriesWaitInTheSocket(t *testing.T) {
	t.Parallel()
	const queries = 450
	reached, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := servertest.Start(t, servertest.Block(".", stage(handler(func(r *server.Reply, q *server.Query) server.Verdict {
		once.Do(func() { close(reached) })
		<-release
		return address(r, q)
	}))))
	conn, err := net.Dial("udp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.UDPConn).SetReadBuffer(1 << 20)
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	send := func(id uint16) {
		t.Helper()
		m := servertest.Query("n.", dns.TypeA, 0)
		m.Id = id
		if _, err := conn.Write(servertest.Pack(t, m)); err != nil {
			t.Fatal(err)
		}
	}
	send(0)
	<-reached
	for id := uint16(1); id < queries; id++ {
		send(id)
	}
	close(release)
	buf := make([]byte, 512)
	for n := range queries {
		if _, err := conn.Read(buf); err != nil {
			t.Fatalf("%d of %d replies: %v", n, queries, err)
		}
	}
}
