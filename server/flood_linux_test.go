package server_test

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// TestFloodsOfConnections has clients that make more connections than there may be, over TCP and TLS, and say nothing, or begin a handshake and leave it. Another
// client, which makes a connection now and then and uses one that it has, is answered each time. One of Linux's loopback addresses stands for each.
func TestFloodsOfConnections(t *testing.T) {
	t.Parallel()
	limits := server.DefaultLimits()
	limits.TCPConns, limits.TCPPerClient, limits.TCPIdle = 40, 15, 20*time.Second
	cert, roots := servertest.Certificate(t)
	s := server.New(limits, server.Hooks{})
	b := []*server.Block{servertest.Block(".", stage(handler(address)))}
	if err := s.Apply([]server.Listener{
		{Host: "127.0.0.1", Port: "0", Blocks: b},
		{Transport: server.TLS, Host: "127.0.0.1", Port: "0", Blocks: b, TLS: &tls.Config{Certificates: []tls.Certificate{cert}}},
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shutdown(t.Context()) })
	for name, addr := range map[string]string{"tcp": s.Addrs()["127.0.0.1:0"].String(), "tls": s.Addrs()["tls://127.0.0.1:0"].String()} {
		from := func(last byte) *net.Dialer {
			return &net.Dialer{Timeout: 20 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, last)}}
		}
		good := func() *dns.Conn {
			var conn net.Conn
			var err error
			if name == "tls" {
				conn, err = tls.DialWithDialer(from(99), "tcp", addr, &tls.Config{RootCAs: roots})
			} else {
				conn, err = from(99).Dial("tcp", addr)
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			t.Cleanup(func() { conn.Close() })
			return &dns.Conn{Conn: conn}
		}
		kept := good()
		for i := range 400 {
			conn, err := from(byte(2+i%8)).Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			_, _ = conn.Write([]byte{22, 3, 1, 2, 0}[:i%6]) // it may have been turned away already
			if i%10 > 0 {
				continue
			}
			if err := ask(kept); err != nil {
				t.Fatalf("%s, flood of %d: the connection that is used: %v", name, i, err)
			}
			if err := ask(good()); err != nil {
				t.Fatalf("%s, flood of %d: a new connection: %v", name, i, err)
			}
		}
	}
}
