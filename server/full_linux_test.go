package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// TestFullSocket: replies to clients that have vanished from the link fill the socket, as the system keeps them while it looks for their
// addresses. Whoever goes on with parked queries does not wait for that: it reads from an upstream, and answers for other sockets too. When there is room
// again, the next query is answered. Replies that were too many to wait are counted.
func TestFullSocket(t *testing.T) {
	t.Parallel()
	runInside(t, "full")
}

// fullSocket runs in the namespace.
func fullSocket() error {
	const gone, each = 10, 100
	for _, args := range []string{
		"link set lo up", "link add near type veth peer name far", "addr add 10.99.0.2/24 dev near", "addr add 10.99.0.1/32 dev lo", "link set near up", "link set far up",
	} {
		if err := ip(args); err != nil {
			return err
		}
	}
	// The system never stops to look for them.
	if err := os.WriteFile("/proc/sys/net/ipv4/neigh/near/mcast_solicit", []byte("100000"), 0o600); err != nil {
		return err
	}
	var mu sync.Mutex
	var waits []func(t *server.Turn)
	waiting := func() []func(t *server.Turn) {
		mu.Lock()
		defer mu.Unlock()
		return waits
	}
	park := parker{park: func(p server.Parked, r *server.Reply, q *server.Query) bool {
		mu.Lock()
		defer mu.Unlock()
		waits = append(waits, func(t *server.Turn) { p.Resume(address(r, q), t) })
		return true
	}}
	var dropped atomic.Int64
	s := server.New(server.DefaultLimits(), server.Hooks{Limit: func(l server.Limit) {
		if l == server.LimitUDPReplies {
			dropped.Add(1)
		}
	}})
	if err := s.Apply([]server.Listener{{Host: "10.99.0.1", Port: "0", Sockets: 1, Blocks: []*server.Block{
		servertest.Block("parked.", stage(park)), servertest.Block("inline.", stage(handler(address))),
	}}}); err != nil {
		return err
	}
	addr := s.Addrs()["10.99.0.1:0"].String()
	for i := range gone {
		if err := vanish(fmt.Sprintf("10.99.0.%d", 10+i), addr, each); err != nil {
			return err
		}
	}
	for end := time.Now().Add(patience); len(waiting()) < gone*each; runtime.Gosched() {
		if time.Now().After(end) {
			return fmt.Errorf("%d queries wait", len(waiting()))
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		turn := server.NewTurn()
		for i, f := range waiting() {
			f(turn)
			if i%50 == 0 {
				turn.End()
			}
		}
		turn.End()
	}()
	var errs []error
	select {
	case <-ended:
	case <-time.After(patience):
		errs = append(errs, errors.New("the turn waits for room"))
	}
	if dropped.Load() == 0 {
		errs = append(errs, errors.New("no reply was counted as dropped"))
	}
	if err := ip("link del near"); err != nil { // there is room again
		return err
	}
	m, _, err := (&dns.Client{Timeout: patience}).Exchange(servertest.Query("x.inline.", dns.TypeA, 0), addr)
	if err != nil || len(m.Answer) != 1 {
		errs = append(errs, fmt.Errorf("afterwards: %v, %w", m, err))
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return errors.Join(append(errs, s.Shutdown(ctx))...)
}

// vanish asks n questions from an address, which is nobody's after that.
func vanish(from, addr string, n int) error {
	if err := ip("addr add " + from + "/32 dev lo"); err != nil {
		return err
	}
	d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}
	conn, err := d.Dial("udp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	c := &dns.Conn{Conn: conn}
	for range n {
		if err := c.WriteMsg(servertest.Query("x.parked.", dns.TypeA, 0)); err != nil {
			return err
		}
	}
	return ip("addr del " + from + "/32 dev lo")
}
