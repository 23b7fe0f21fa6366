package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
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

// TestStreamsOverReloadAndStop: over every transport with connections, queries that are under way when the configuration is replaced and when the
// server is told to stop are answered, each by the configuration that it began with, and the connection is closed behind the last answer.
func TestStreamsOverReloadAndStop(t *testing.T) {
	t.Parallel()
	const queries = 40
	for _, tr := range []server.Transport{server.UDP, server.TLS, server.HTTPS} { // UDP stands for TCP as well
		t.Run(tr.String(), func(t *testing.T) {
			t.Parallel()
			cert, roots := servertest.Certificate(t)
			s := server.New(server.DefaultLimits(), server.Hooks{})
			// serve takes a configuration into use whose answers wait to be released.
			serve := func() (reached <-chan struct{}, release chan struct{}) {
				all, release := make(chan struct{}, queries), make(chan struct{})
				gate := waiter(func(_ context.Context, r *server.Reply, q *server.Query) server.Verdict {
					all <- struct{}{}
					<-release
					return address(r, q)
				})
				if err := s.Apply([]server.Listener{{
					Transport: tr, Host: "127.0.0.1", Port: "0", Blocks: []*server.Block{servertest.Block(".", stage(gate))},
					TLS: &tls.Config{Certificates: []tls.Certificate{cert}},
				}}); err != nil {
					t.Fatal(err)
				}
				return all, release
			}
			reached, release := serve()
			var addr string
			for _, a := range s.Addrs() {
				addr = a.String()
			}
			c := newStreamClient(t, tr, addr, roots)
			for range 2 {
				c.ask(t, queries)
				for range queries {
					within(t, reached)
				}
				next, release2 := serve()
				close(release)
				c.answered(t, queries)
				reached, release = next, release2
			}
			c.ask(t, queries)
			for range queries {
				within(t, reached)
			}
			ended := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				ended <- s.Shutdown(ctx)
			}()
			for end := time.Now().Add(patience); ; { // until it takes no more connections
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					break
				}
				conn.Close()
				if time.Now().After(end) {
					t.Fatal("it still takes connections")
				}
			}
			close(release)
			c.answered(t, queries)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			c.closed(t)
		})
	}
}

func within(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("a query does not arrive")
	}
}

// streamClient asks many questions at a time over one connection.
type streamClient struct {
	conn    *dns.Conn    // of TCP or TLS
	http    *http.Client // of HTTPS
	url     string
	replies chan error
}

func newStreamClient(t *testing.T, tr server.Transport, addr string, roots *x509.CertPool) *streamClient {
	t.Helper()
	c := &streamClient{replies: make(chan error, 100)}
	conf := &tls.Config{RootCAs: roots}
	if tr == server.HTTPS {
		// One connection of HTTP/2; nothing is asked again.
		c.http = &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true, MaxConnsPerHost: 1}}
		c.url = "https://" + addr + "/dns-query"
		return c
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if tr == server.TLS {
		conf.ServerName = "127.0.0.1"
		conn = tls.Client(conn, conf)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(3 * patience))
	c.conn = &dns.Conn{Conn: conn}
	return c
}

func (c *streamClient) ask(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		q := servertest.Query(fmt.Sprintf("n%d.", i), dns.TypeA, 0)
		if c.http != nil {
			go func() { c.replies <- c.post(servertest.Pack(t, q)) }()
			continue
		}
		if err := c.conn.WriteMsg(q); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *streamClient) post(query []byte) error {
	res, err := c.http.Post(c.url, "application/dns-message", struct{ io.Reader }{bytes.NewReader(query)}) // a body that cannot be sent twice
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	m := new(dns.Msg)
	if err := m.Unpack(body); err != nil || len(m.Answer) != 1 {
		return fmt.Errorf("%s: %v, %w", res.Status, m, err)
	}
	return nil
}

// answered reads n replies, in whatever order.
func (c *streamClient) answered(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		if c.http != nil {
			if err := <-c.replies; err != nil {
				t.Fatalf("reply %d: %v", i, err)
			}
			continue
		}
		if m, err := c.conn.ReadMsg(); err != nil || len(m.Answer) != 1 {
			t.Fatalf("reply %d: %v, %v", i, m, err)
		}
	}
}

// closed sees that the server has closed the connection in good order.
func (c *streamClient) closed(t *testing.T) {
	t.Helper()
	if c.http != nil {
		if err := c.post(servertest.Pack(t, servertest.Query("n.", dns.TypeA, 0))); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("it is asked over the connection that should have been closed, or another one: %v", err)
		}
		return
	}
	if _, err := c.conn.ReadMsg(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last reply: %v", err)
	}
}
