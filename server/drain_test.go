package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// patience ends a test that hangs.
const patience = 10 * time.Second

// TestShutdownAnswersWhatArrived: a connection ends between answers. Every query that had arrived when the server was told to stop is
// answered, also those that it had not read yet, and after the last reply the connection is closed in good order.
func TestShutdownAnswersWhatArrived(t *testing.T) {
	t.Parallel()
	const queries = 1000 // about 30 kB, many times what is read at once
	reached, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := server.New(server.DefaultLimits(), server.Hooks{})
	gate := handler(func(r *server.Reply, q *server.Query) server.Verdict {
		once.Do(func() { close(reached) })
		<-release
		return address(r, q)
	})
	if err := s.Apply([]server.Listener{{Host: "127.0.0.1", Port: "0", Blocks: []*server.Block{servertest.Block(".", stage(gate))}}}); err != nil {
		t.Fatal(err)
	}
	addr := s.Addrs()["127.0.0.1:0"].String()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := &dns.Conn{Conn: conn}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	idle, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	_ = idle.SetDeadline(time.Now().Add(patience))
	for i := range queries {
		if err := c.WriteMsg(servertest.Query(fmt.Sprintf("n%d.", i), dns.TypeA, 0)); err != nil {
			t.Fatal(err)
		}
	}
	<-reached
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		ended <- s.Shutdown(ctx)
	}()
	if n, err := idle.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) { // the server is draining now
		t.Errorf("the idle connection: %d bytes, %v", n, err)
	}
	close(release)
	for i := range queries {
		m, err := c.ReadMsg()
		if err != nil || !strings.HasPrefix(m.Question[0].Name, fmt.Sprintf("n%d.", i)) || len(m.Answer) != 1 {
			t.Fatalf("reply %d: %v %v", i, m, err)
		}
	}
	if _, err := c.ReadMsg(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last reply: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestShutdownOfBusyConnection: a client that never stops asking does not keep the server.
func TestShutdownOfBusyConnection(t *testing.T) {
	t.Parallel()
	s := server.New(server.DefaultLimits(), server.Hooks{})
	if err := s.Apply([]server.Listener{{Host: "127.0.0.1", Port: "0", Blocks: []*server.Block{servertest.Block(".", stage(handler(address)))}}}); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", s.Addrs()["127.0.0.1:0"].String())
	if err != nil {
		t.Fatal(err)
	}
	c := &dns.Conn{Conn: conn}
	defer c.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for c.WriteMsg(servertest.Query("n.", dns.TypeA, 0)) == nil {
		}
	})
	wg.Go(func() { _, _ = io.Copy(io.Discard, conn) })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}
