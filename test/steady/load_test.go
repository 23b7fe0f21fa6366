//go:build unix

package steady_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/servertest"
)

const (
	// sockets is how many long-lived clients there are.
	sockets = 8
	// tick is how often each of them sends what is due.
	tick = 2 * time.Millisecond
	// late is how long after the last query a reply may come.
	late = 5 * time.Second
)

// load asks queries at a fixed rate, whatever comes back, from a few sockets that stay open.
type load struct {
	clients []*client
	quit    chan struct{}
	gate    sync.RWMutex // held for writing while nothing may be sent
	wg      sync.WaitGroup
}

type client struct {
	conn     *net.UDPConn
	queries  [][]byte
	sent     atomic.Int64
	answered atomic.Int64
	wrong    atomic.Int64
	pending  [1 << 16]atomic.Bool
}

func startLoad(t *testing.T, addr string, rate int, names []string) *load {
	t.Helper()
	l := &load{quit: make(chan struct{})}
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	for range sockets {
		conn, err := net.DialUDP("udp", nil, to)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadBuffer(4 << 20) // what this test loses itself is not the server's fault
		c := &client{conn: conn}
		for _, n := range names {
			c.queries = append(c.queries, servertest.Pack(t, servertest.Query(n, dns.TypeA, 0)))
		}
		l.clients = append(l.clients, c)
		l.wg.Go(c.receive)
		l.wg.Go(func() { c.send(rate/sockets, &l.gate, l.quit) })
	}
	t.Cleanup(func() {
		for _, c := range l.clients {
			c.conn.Close()
		}
	})
	return l
}

// send asks at the rate until quit, and then lets receive end.
func (c *client) send(rate int, gate *sync.RWMutex, quit <-chan struct{}) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for begin, n := time.Now(), 0; ; {
		select {
		case <-quit:
			_ = c.conn.SetReadDeadline(time.Now().Add(late))
			return
		case <-ticker.C:
		}
		// A machine that is busy elsewhere makes this late; what is due then is not sent in one burst that no client would make.
		due := min(int(time.Since(begin).Seconds()*float64(rate)), n+max(1, rate/100))
		gate.RLock()
		for ; n < due; n++ {
			q := c.queries[n%len(c.queries)]
			id := uint16(n)
			binary.BigEndian.PutUint16(q, id)
			c.pending[id].Store(true) // after 65,536 others: one that is still open then counts as lost
			if _, err := c.conn.Write(q); err == nil {
				c.sent.Add(1)
			}
		}
		gate.RUnlock()
		if lag := time.Since(begin); int(lag.Seconds()*float64(rate)) > n+rate/100 {
			begin = time.Now().Add(-time.Duration(float64(n) / float64(rate) * float64(time.Second)))
		}
	}
}

// receive counts replies until all have come or the deadline.
func (c *client) receive() {
	buf := make([]byte, 4096)
	for {
		n, err := c.conn.Read(buf)
		if err != nil {
			return
		}
		if n < 12 || !c.pending[binary.BigEndian.Uint16(buf)].Swap(false) {
			continue
		}
		c.answered.Add(1)
		if rc := int(buf[3] & 0xF); rc != dns.RcodeSuccess && rc != dns.RcodeNameError {
			c.wrong.Add(1)
		}
	}
}

func (l *load) sent() (n int64) {
	for _, c := range l.clients {
		n += c.sent.Load()
	}
	return n
}

// awaitAll waits until every socket has had a reply.
func (l *load) awaitAll(t *testing.T) {
	t.Helper()
	check := time.NewTicker(tick)
	defer check.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-check.C {
		all := true
		for _, c := range l.clients {
			all = all && c.answered.Load() > 0
		}
		if all {
			return
		}
	}
	t.Fatal("not every socket gets replies")
}

// between calls do while no query is under way.
func (l *load) between(t *testing.T, do func()) {
	t.Helper()
	l.gate.Lock()
	defer l.gate.Unlock()
	check := time.NewTicker(time.Millisecond)
	defer check.Stop()
	for end := time.Now().Add(late); l.sent() > l.answered() && time.Now().Before(end); {
		<-check.C
	}
	do()
}

func (l *load) answered() (n int64) {
	for _, c := range l.clients {
		n += c.answered.Load()
	}
	return n
}

// stop sends no more.
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

// full is how many datagrams the kernel has thrown away because a socket was full: one of the server at addr, and one of its clients. Both
// happen where the machine has no time for the process; it is 0 where the system does not say.
func full(addr string) (atServer, atClients int) {
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	hex := fmt.Sprintf(":%04X", n)
	table, _ := os.ReadFile("/proc/net/udp")
	for _, l := range strings.Split(string(table), "\n") {
		f := strings.Fields(l)
		if len(f) < 13 {
			continue
		}
		drops, _ := strconv.Atoi(f[12])
		switch {
		case strings.HasSuffix(f[1], hex):
			atServer += drops
		case strings.HasSuffix(f[2], hex):
			atClients += drops
		}
	}
	return atServer, atClients
}

// readiness asks /ready all the time: it must never say no.
type readiness struct {
	quit chan struct{}
	done chan error
}

func watchReady(t *testing.T, url string) *readiness {
	t.Helper()
	r := &readiness{quit: make(chan struct{}), done: make(chan error, 1)}
	go func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		asked := 0
		for {
			select {
			case <-r.quit:
				if asked == 0 {
					r.done <- fmt.Errorf("%s was never asked", url)
					return
				}
				r.done <- nil
				return
			case <-ticker.C:
			}
			res, err := http.Get(url)
			if err == nil {
				res.Body.Close()
				if res.StatusCode != http.StatusOK {
					err = fmt.Errorf("%s: %s", url, res.Status)
				}
			}
			if err != nil {
				r.done <- err
				return
			}
			asked++
		}
	}()
	return r
}

// stop gives the first failure.
func (r *readiness) stop() error {
	close(r.quit)
	return <-r.done
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
