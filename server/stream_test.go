package server_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// stream answers with three messages where it can.
type stream struct{ slow }

func (stream) AwaitAnswer(_ context.Context, r *server.Reply, q *server.Query) server.Verdict {
	for i := range byte(3) {
		if i > 0 && !r.Send() {
			r.SetRCode(wire.RCodeRefused)
			return server.Done
		}
		r.A(server.Answer, server.Owner, 5, [4]byte{192, 0, 2, i})
	}
	return server.Done
}

func TestSend(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Block(".", server.Stage{Name: "stream", Handler: stream{}}))
	conn, err := dns.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	m := servertest.Query("example.org.", dns.TypeA, 1232)
	if err := conn.WriteMsg(m); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		r, err := conn.ReadMsg()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := lines(r.Answer), fmt.Sprintf("example.org. 5 IN A 192.0.2.%d", i); got != want || r.Id != m.Id || len(r.Question) != 1 || r.IsEdns0() == nil {
			t.Errorf("message %d: %v", i, r)
		}
	}
	if r := s.Exchange(t, "udp", m); r.Rcode != dns.RcodeRefused {
		t.Errorf("over UDP: %v", r)
	}
	if r := s.Exchange(t, "tcp", servertest.Query("example.com.", dns.TypeA, 0)); len(r.Answer) != 1 {
		t.Errorf("the first of three: %v", r)
	}
}
