package soak_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/servertest"
)

const (
	// sockets is how many clients there are.
	sockets = 8
	// late is how long after the last query a reply may come: as long as a query may wait for an upstream, and a little.
	late = 7 * time.Second
)

// load asks at a fixed rate. Names of the cluster have to be answered, those of the silent upstream only have to have a reply.
type load struct {
	clients []*client
	quit    chan struct{}
	wg      sync.WaitGroup
}

type client struct {
	conn                  *net.UDPConn
	queries               [][]byte
	cluster               []bool // by query: whether it has to succeed
	sent, answered, wrong atomic.Int64
	pending               [1 << 16]atomic.Bool
}

func startLoad(t *testing.T, addr string, rate int) *load {
	t.Helper()
	l := &load{quit: make(chan struct{})}
	for i := range sockets {
		conn, err := net.Dial("udp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c := &client{conn: conn.(*net.UDPConn)}
		_ = c.conn.SetReadBuffer(4 << 20) // what this test loses itself is not the server's fault
		for n := range 64 {
			name, mine := fmt.Sprintf("s%d.prod.svc.cluster.local.", n*7), true
			switch n % 4 {
			case 1:
				name = fmt.Sprintf("missing%d.prod.svc.cluster.local.", n)
			case 2:
				name, mine = fmt.Sprintf("www%d.example.com.", n), false
			case 3:
				name, mine = fmt.Sprintf("miss%d-%d.example.net.", i, n), false
			}
			c.queries = append(c.queries, servertest.Pack(t, servertest.Query(name, dns.TypeA, 1232)))
			c.cluster = append(c.cluster, mine)
		}
		l.clients = append(l.clients, c)
		l.wg.Go(c.receive)
		l.wg.Go(func() { c.send(rate/sockets, l.quit) })
	}
	t.Cleanup(func() {
		for _, c := range l.clients {
			c.conn.Close()
		}
	})
	return l
}

// send asks what is due every few milliseconds. If the machine keeps it from that, it does not catch up in a burst that no client would make.
func (c *client) send(rate int, quit <-chan struct{}) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	last, owed, n := time.Now(), 0.0, 0
	for {
		select {
		case <-quit:
			_ = c.conn.SetReadDeadline(time.Now().Add(late))
			return
		case now := <-tick.C:
			owed = min(owed+now.Sub(last).Seconds()*float64(rate), float64(rate)/50+1)
			last = now
		}
		for ; owed >= 1; owed-- {
			q := c.queries[n%len(c.queries)]
			binary.BigEndian.PutUint16(q, uint16(n))
			c.pending[uint16(n)].Store(true) // after 65,536 others: one that is still open then counts as lost
			if _, err := c.conn.Write(q); err == nil {
				c.sent.Add(1)
			}
			n++
		}
	}
}

func (c *client) receive() {
	buf := make([]byte, 4096)
	for {
		n, err := c.conn.Read(buf)
		if err != nil {
			return
		}
		id := binary.BigEndian.Uint16(buf)
		if n < 12 || !c.pending[id].Swap(false) {
			continue
		}
		c.answered.Add(1)
		if rc := buf[3] & 0xF; c.cluster[int(id)%len(c.cluster)] && rc != dns.RcodeSuccess && rc != dns.RcodeNameError {
			c.wrong.Add(1)
		}
	}
}

func (l *load) stop() { close(l.quit) }

// result waits for the last replies.
func (l *load) result() (sent, lost, wrong int64) {
	l.wg.Wait()
	for _, c := range l.clients {
		sent += c.sent.Load()
		lost += c.sent.Load() - c.answered.Load()
		wrong += c.wrong.Load()
	}
	return sent, lost, wrong
}

// malformed is the second source: it sends what is no query, by UDP and over connections that it leaves half-way.
type malformed struct {
	t    *testing.T
	addr string
	conn net.Conn
	good []byte
	sent atomic.Int64
}

func startMalformed(t *testing.T, addr string) *malformed {
	t.Helper()
	conn, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &malformed{t: t, addr: addr, conn: conn, good: servertest.Pack(t, servertest.Query("web.prod.svc.cluster.local.", dns.TypeANY, 4096))}
}

// send sends a packet that is a query with a few bytes changed, or cut, or nothing but noise.
func (m *malformed) send(n int) {
	b := slices.Clone(m.good)
	switch n % 4 {
	case 0:
		b = b[:rand.IntN(len(b))]
	case 1:
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
	case 2:
		b = append(b, make([]byte, rand.IntN(3000))...)
	default:
		for range 1 + rand.IntN(4) {
			b[rand.IntN(len(b))] = byte(rand.Uint32())
		}
	}
	if _, err := m.conn.Write(b); err == nil {
		m.sent.Add(1)
	}
	if n%100 == 0 {
		if c, err := net.DialTimeout("tcp", m.addr, time.Second); err == nil {
			_, _ = c.Write(b)
			c.Close()
		}
	}
}

// runtimeFigures are the goroutines and the bytes of the heap in use, as /metrics has them.
func runtimeFigures(t *testing.T, metrics io.Reader) (goroutines, heap float64) {
	t.Helper()
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		_, _ = fmt.Sscanf(lines.Text(), "go_goroutines %f", &goroutines)
		_, _ = fmt.Sscanf(lines.Text(), "go_memstats_heap_inuse_bytes %f", &heap)
	}
	if goroutines == 0 || heap == 0 {
		t.Fatal("no figures of the runtime in the metrics")
	}
	return goroutines, heap
}

func median(all []sample, value func(sample) float64) float64 {
	var v []float64
	for _, s := range all {
		v = append(v, value(s))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// freePort is a TCP port of loopback that is free now.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
