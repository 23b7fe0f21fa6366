package soak_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/test/internal/load"
)

const (
	// sockets is how many clients there are.
	sockets = 8
	// late is how long after the last query a reply may come: as long as a query may wait for an upstream, and a little.
	late = 7 * time.Second
)

// startLoad asks for names of the cluster, which have to be answered, and for those of the upstream that is silent at times, which only have to have a
// reply.
func startLoad(t *testing.T, addr string, rate int) *load.Load {
	t.Helper()
	return load.Start(t, load.Options{Addr: addr, Rate: rate, Sockets: sockets, Late: late, Queries: func(socket int) (queries []load.Query) {
		for n := range 64 {
			name, outside := fmt.Sprintf("s%d.prod.svc.cluster.local.", n*7), false
			switch n % 4 {
			case 1:
				name = fmt.Sprintf("missing%d.prod.svc.cluster.local.", n)
			case 2:
				name, outside = fmt.Sprintf("www%d.example.com.", n), true
			case 3:
				name, outside = fmt.Sprintf("miss%d-%d.example.net.", socket, n), true
			}
			queries = append(queries, load.Query{Wire: servertest.Pack(t, servertest.Query(name, dns.TypeA, 1232)), MayFail: outside})
		}
		return queries
	}})
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
	go func() { _, _ = io.Copy(io.Discard, conn) }() // what comes back must not fill the socket: that would be counted as lost
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
