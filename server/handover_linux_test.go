package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// gate holds queries back: it gives one for each that has come, and lets them go when it is closed.
type gate chan struct{}

// serves starts a server on an address, with names below wait. that are answered once they may pass the gate.
func serves(t *testing.T, host, port string, g gate) (*server.Server, string) {
	t.Helper()
	s := server.New(server.DefaultLimits(), server.Hooks{})
	waits := waiter(func(_ context.Context, r *server.Reply, q *server.Query) server.Verdict {
		<-g // it has come
		<-g
		return address(r, q)
	})
	err := s.Apply([]server.Listener{{Host: host, Port: port, Sockets: 4, Blocks: []*server.Block{
		servertest.Block(".", stage(handler(address))),
		servertest.Block("wait.", stage(waits)),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return s, s.Addrs()[net.JoinHostPort(host, port)].String()
}

// needs skips a test where nobody can listen on an address.
func needs(t *testing.T, host string) {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Skipf("this machine has no %s: %v", host, err)
	}
	ln.Close()
}

// shutdown stops a server.
func shutdown(s *server.Server) (ended <-chan error) {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		done <- s.Shutdown(ctx)
	}()
	return done
}

// TestSucceeded: a server knows if another one listens on all of its addresses, and is not told so by its own sockets or those nearby.
func TestSucceeded(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"127.0.0.1", "::1", ""} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			needs(t, host)
			fresh := server.New(server.DefaultLimits(), server.Hooks{})
			if fresh.Succeeded() {
				t.Error("it serves nothing and has a successor")
			}
			old, addr := serves(t, host, "0", nil)
			t.Cleanup(func() { <-shutdown(old) })
			_, port, _ := net.SplitHostPort(addr)
			if _, err := dns.Exchange(servertest.Query("a.example.", dns.TypeA, 0), net.JoinHostPort(host, port)); err != nil {
				t.Fatal(err)
			}
			if old.Succeeded() {
				t.Error("its own sockets are its successor")
			}
			next, _ := serves(t, host, port, nil)
			if !old.Succeeded() || !next.Succeeded() {
				t.Error("two listen, and do not know it")
			}
			if err := <-shutdown(next); err != nil {
				t.Fatal(err)
			}
			if old.Succeeded() {
				t.Error("the other one has gone")
			}
			next, _ = serves(t, host, port, nil)
			t.Cleanup(func() { <-shutdown(next) })
			second := server.Listener{Host: host, Port: "0", Blocks: []*server.Block{servertest.Block(".", stage(handler(address)))}}
			if err := old.Apply([]server.Listener{{Host: host, Port: "0", Blocks: second.Blocks}, {Transport: server.HTTPS, Host: host, Port: "0", Blocks: second.Blocks}}); err != nil {
				t.Fatal(err)
			}
			if old.Succeeded() {
				t.Error("one of its two addresses is its own alone")
			}
		})
	}
}

// TestHandover: two servers share an address, and one of them stops. It takes no query any more while it waits for the answer of an earlier
// one, which still goes out: clients, each with a socket of its own, lose nothing.
func TestHandover(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			needs(t, host)
			handover(t, host)
		})
	}
}

func handover(t *testing.T, host string) {
	g := make(gate)
	old, addr := serves(t, host, "0", g)
	dial := func(network string) *dns.Conn {
		c, err := dns.DialTimeout(network, addr, patience)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		return c
	}
	parked, idle := dial("udp"), dial("tcp")
	defer parked.Close()
	defer idle.Close()
	if err := parked.WriteMsg(servertest.Query("a.wait.", dns.TypeA, 0)); err != nil {
		t.Fatal(err)
	}
	select {
	case g <- struct{}{}:
	case <-time.After(patience):
		t.Fatal("the query has not come")
	}
	_, port, _ := net.SplitHostPort(addr)
	next, _ := serves(t, host, port, g)
	defer func() { <-shutdown(next) }()

	ended := shutdown(old)
	if _, err := idle.ReadMsg(); !errors.Is(err, io.EOF) { // the server has begun to stop
		t.Fatalf("the idle connection: %v", err)
	}
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			c := dns.Client{Timeout: patience}
			for k := range 5 {
				name := fmt.Sprintf("n%d-%d.", i, k)
				if m, _, err := c.Exchange(servertest.Query(name, dns.TypeA, 0), addr); err != nil || len(m.Answer) != 1 {
					t.Errorf("%s: %v %v", name, m, err)
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-ended:
		t.Errorf("the old server ended with a query unanswered: %v", err)
	default:
	}
	close(g)
	if m, err := parked.ReadMsg(); err != nil || len(m.Answer) != 1 {
		t.Errorf("the query that had waited: %v %v", m, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestShutdownTakesConnectionsThatWait: a connection that was made before the server was told to stop is served, even if nobody had accepted
// it yet.
func TestShutdownTakesConnectionsThatWait(t *testing.T) {
	t.Parallel()
	s, addr := serves(t, "127.0.0.1", "0", nil)
	conns := make([]*dns.Conn, 300)
	for i := range conns {
		c, err := dns.DialTimeout("tcp", addr, patience)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		if err := c.WriteMsg(servertest.Query(fmt.Sprintf("n%d.", i), dns.TypeA, 0)); err != nil {
			t.Fatal(err)
		}
		conns[i] = c
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	for i, c := range conns {
		if m, err := c.ReadMsg(); err != nil || len(m.Answer) != 1 {
			t.Errorf("connection %d: %v %v", i, m, err)
		}
	}
}
