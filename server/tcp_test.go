package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// startLimited serves address answers under limits until the test ends, and reports the limits that are hit.
func startLimited(t *testing.T, l server.Limits) (addr string, hit <-chan server.Limit) {
	t.Helper()
	ch := make(chan server.Limit, 16)
	s := server.New(l, server.Hooks{Limit: func(l server.Limit) { ch <- l }})
	b := servertest.Block(".", stage(handler(address)))
	if err := s.Apply([]server.Listener{{Host: "127.0.0.1", Port: "0", Blocks: []*server.Block{b}}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // connections that the test left open are closed at once
		_ = s.Shutdown(ctx)
	})
	return s.Addrs()["127.0.0.1:0"].String(), ch
}

func dial(t *testing.T, addr string) *dns.Conn {
	t.Helper()
	c, err := dns.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask exchanges one query on the connection.
func ask(c *dns.Conn) error {
	if err := c.WriteMsg(servertest.Query("x.", dns.TypeA, 0)); err != nil {
		return err
	}
	_, err := c.ReadMsg()
	return err
}

func TestTCPConnsLimit(t *testing.T) {
	t.Parallel()
	l := server.DefaultLimits()
	l.TCPConns = 2
	addr, hit := startLimited(t, l)
	a, b := dial(t, addr), dial(t, addr)
	for _, c := range []*dns.Conn{a, b} {
		if err := ask(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask(dial(t, addr)); err != nil {
		t.Errorf("a third connection: %v, want an answer", err)
	}
	if got := <-hit; got != server.LimitTCPConns {
		t.Errorf("limit %s", got)
	}
	if err := ask(a); err == nil {
		t.Error("the connection that was idle longest is still open")
	}
	if err := ask(b); err != nil {
		t.Errorf("the other one: %v", err)
	}
}

// moody is a listener that fails before it gives connections.
type moody struct {
	net.Listener
	errs []error
}

func (m *moody) Accept() (net.Conn, error) {
	if len(m.errs) == 0 {
		return m.Listener.Accept()
	}
	err := m.errs[0]
	m.errs = m.errs[1:]
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
}

// TestAcceptErrors has Accept fail as accept(2) says that it may: that is no reason to serve TCP no more. It ends with the listener.
func TestAcceptErrors(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		errs := []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EPERM, syscall.EHOSTUNREACH, syscall.ECONNABORTED}
		server.ServeTCP(&moody{ln, errs}, []*server.Block{servertest.Block(".", stage(handler(address)))})
	}()
	c := dial(t, ln.Addr().String())
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if err := ask(c); err != nil {
		t.Error(err)
	}
	c.Close()
	ln.Close()
	<-done
}

func TestTCPPerClientLimit(t *testing.T) {
	t.Parallel()
	l := server.DefaultLimits()
	l.TCPPerClient = 1
	addr, hit := startLimited(t, l)
	a := dial(t, addr)
	if err := ask(a); err != nil {
		t.Fatal(err)
	}
	if err := ask(dial(t, addr)); err == nil {
		t.Error("a second connection of one client is answered")
	}
	if got := <-hit; got != server.LimitTCPPerClient {
		t.Errorf("limit %s", got)
	}
	if err := ask(a); err != nil {
		t.Errorf("the first one: %v", err)
	}
}

// TestQuerySize: a datagram longer than a query may be is dropped, and a connection closed that announces one, before it is sent. Both are
// counted, the longest query there may be is answered, and the server goes on.
func TestQuerySize(t *testing.T) {
	t.Parallel()
	longest := server.DefaultLimits().QuerySize
	for _, network := range []string{"udp", "tcp"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			addr, hit := startLimited(t, server.DefaultLimits())
			open := func() *dns.Conn {
				c, err := dns.Dial(network, addr)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				_ = c.SetDeadline(time.Now().Add(patience))
				return c
			}
			c := open()
			m := padded(t, longest)
			if err := c.WriteMsg(m); err != nil {
				t.Fatal(err)
			}
			if r, err := c.ReadMsg(); err != nil || r.Rcode != dns.RcodeSuccess {
				t.Errorf("of %d bytes: %v, %v", longest, r, err)
			}
			long := make([]byte, longest+1)
			if network == "tcp" {
				long = binary.BigEndian.AppendUint16(nil, uint16(longest+1))
			}
			if _, err := c.Conn.Write(long); err != nil {
				t.Fatal(err)
			}
			if got := <-hit; got != server.LimitQuerySize {
				t.Errorf("limit %s", got)
			}
			if network == "tcp" {
				if _, err := c.ReadMsg(); !errors.Is(err, io.EOF) {
					t.Errorf("after a query that is too long: %v", err)
				}
				c = open()
			}
			if err := ask(c); err != nil {
				t.Error(err)
			}
		})
	}
}

// padded is a query of exactly n bytes (RFC 7830).
func padded(t *testing.T, n int) *dns.Msg {
	t.Helper()
	m := servertest.Query("www.example.", dns.TypeA, 1232)
	pad := new(dns.EDNS0_PADDING)
	m.IsEdns0().Option = append(m.IsEdns0().Option, pad)
	pad.Padding = make([]byte, n-m.Len())
	if len(servertest.Pack(t, m)) != n {
		t.Fatalf("%d bytes", m.Len())
	}
	return m
}

// TestManyQueriesOneConnection keeps a pipeline full: the answers come in order and none is lost.
func TestManyQueriesOneConnection(t *testing.T) {
	t.Parallel()
	addr, _ := startLimited(t, server.DefaultLimits())
	c := dial(t, addr)
	const n = 5000
	failed := make(chan error, 1)
	go func() {
		for i := range n {
			m := servertest.Query("x.", dns.TypeA, 0)
			m.Id = uint16(i)
			if err := c.WriteMsg(m); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	for i := range n {
		if m, err := c.ReadMsg(); err != nil || m.Id != uint16(i) {
			t.Fatalf("reply %d: %v, %v", i, m, err)
		}
	}
	if err := <-failed; err != nil {
		t.Error(err)
	}
}

// TestTimeouts bounds what a connection may take, by listener.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what     string
		timeouts server.Timeouts
		use      func(c *dns.Conn) error
	}{
		{"idle", server.Timeouts{Idle: 2 * time.Second}, ask},
		{"slow", server.Timeouts{Read: 50 * time.Millisecond}, func(c *dns.Conn) error {
			_, err := c.Conn.Write([]byte{0, 40, 1})
			return err
		}},
		{"queries", server.Timeouts{Queries: 2}, func(c *dns.Conn) error { return errors.Join(ask(c), ask(c)) }},
	} {
		s := server.New(server.DefaultLimits(), server.Hooks{})
		b := servertest.Block(".", stage(handler(address)))
		if err := s.Apply([]server.Listener{{Host: "127.0.0.1", Port: "0", Blocks: []*server.Block{b}, Timeouts: c.timeouts}}); err != nil {
			t.Fatal(err)
		}
		conn := dial(t, s.Addrs()["127.0.0.1:0"].String())
		if err := c.use(conn); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(8 * time.Second)) // less than any default
		if _, err := conn.ReadMsg(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v, want the end of the connection", c.what, err)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestHalfAQuery sends a query and the beginning of the next at once: the first is answered without waiting for the rest.
func TestHalfAQuery(t *testing.T) {
	t.Parallel()
	addr, _ := startLimited(t, server.DefaultLimits())
	c := dial(t, addr)
	msg := servertest.Pack(t, servertest.Query("x.", dns.TypeA, 0))
	frame := append([]byte{0, byte(len(msg))}, msg...)
	if _, err := c.Conn.Write(append(bytes.Clone(frame), frame[:5]...)); err != nil {
		t.Fatal(err)
	}
	for _, rest := range [][]byte{frame[5:], nil} {
		if _, err := c.ReadMsg(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Conn.Write(rest); err != nil {
			t.Fatal(err)
		}
	}
}
