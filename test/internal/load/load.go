// Package load asks a server at a fixed rate, as tests of whole servers need it: whatever comes back, from sockets that stay open, and with an
// account of every query.
package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/clusterdns/clusterdns/server/wire"
)

const (
	// tick is how often what is due is sent.
	tick = 2 * time.Millisecond
	// batch is how many datagrams one system call moves: more than are due to one socket at a tick.
	batch = 64
	// stall is how much of the time that a busy machine kept the sender from its work is made up for at the most. What is due beyond
	// that is not asked, and Result says so.
	stall = time.Second
	// haste is how many times the rate is sent while time is made up for: a burst of all that is due is what no client sends, and it would
	// measure the size of the server's sockets.
	haste = 2
	// readBuffer keeps replies while the machine has no time for the client: what it loses itself is not the server's fault.
	readBuffer = 4 << 20
	// patience is how long AwaitAll and Between wait.
	patience = 30 * time.Second
)

// Query is one question that is asked over and over.
type Query struct {
	// Wire is the packed query. Its id is set when it is sent.
	Wire []byte
	// MayFail allows rcodes besides NOERROR and NXDOMAIN.
	MayFail bool
}

// Options say what a load does.
type Options struct {
	// Addr is the server's address for UDP.
	Addr string
	// Rate is how many queries a second are sent from all sockets, 1 or more.
	Rate int
	// Sockets is how many clients there are, 1 or more.
	Sockets int
	// Queries gives what a client asks in turn, by its number from 0.
	Queries func(socket int) []Query
	// Late is how long after the last query its reply may come.
	Late time.Duration
}

// Load is under way from Start until Stop.
type Load struct {
	clients []*client
	late    time.Duration
	begin   time.Time
	ended   time.Duration // how long it sent
	due     atomic.Int64
	gate    sync.Mutex // held while something is sent
	quit    chan struct{}
	sender  sync.WaitGroup
	readers sync.WaitGroup
}

// Result is the account of a load.
type Result struct {
	// Due is how many queries the rate called for, and Sent how many of them the machine had time for.
	Due, Sent int64
	// Lost are those without a reply; Wrong those with an rcode that they may not have.
	Lost, Wrong int64
	// Took is how long queries were sent.
	Took time.Duration
}

// String is a line for a log.
func (r Result) String() string {
	rate := func(n int64) float64 { return float64(n) / r.Took.Seconds() }
	return fmt.Sprintf("%d queries in %s: %.0f a second asked for, %.0f sent, %.0f answered; %d lost, %d answered with a failure",
		r.Sent, r.Took.Round(time.Millisecond), rate(r.Due), rate(r.Sent), rate(r.Sent-r.Lost), r.Lost, r.Wrong)
}

// Start opens the sockets and begins to send. The load ends with the test at the latest.
func Start(tb testing.TB, o Options) *Load {
	tb.Helper()
	l := &Load{late: o.Late, begin: time.Now(), quit: make(chan struct{})}
	for i := range o.Sockets {
		c, err := dial(o.Addr, o.Queries(i))
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { c.conn.Close() })
		l.clients = append(l.clients, c)
		l.readers.Go(c.receive)
	}
	l.sender.Go(func() { l.send(o.Rate) })
	tb.Cleanup(func() {
		l.end()
		l.sender.Wait()
	})
	return l
}

// send sends what is due at each tick until the load is stopped.
func (l *Load) send(rate int) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last, owed, next := time.Now(), 0.0, 0
	for {
		select {
		case <-l.quit:
			return
		case <-ticker.C:
		}
		now := time.Now()
		passed := min(now.Sub(last), 5*tick)
		owed = min(owed+now.Sub(last).Seconds()*float64(rate), stall.Seconds()*float64(rate))
		last = now
		l.due.Store(int64(now.Sub(l.begin).Seconds() * float64(rate)))
		n := int(min(owed, haste*passed.Seconds()*float64(rate)+1))
		owed -= float64(n)
		l.gate.Lock()
		for i := range l.clients {
			share := n / len(l.clients)
			if i < n%len(l.clients) {
				share++
			}
			l.clients[(next+i)%len(l.clients)].ask(share)
		}
		next += n % len(l.clients) // those that do not divide evenly are other clients' each time
		l.gate.Unlock()
	}
}

// AwaitAll waits until every socket has had a reply.
func (l *Load) AwaitAll(tb testing.TB) {
	tb.Helper()
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
	tb.Fatal("not every socket gets replies")
}

// Between calls do while no query is under way.
func (l *Load) Between(do func()) {
	l.gate.Lock()
	defer l.gate.Unlock()
	l.awaitReplies()
	do()
}

// awaitReplies waits until no query is open, while none is sent.
func (l *Load) awaitReplies() {
	check := time.NewTicker(tick)
	defer check.Stop()
	for end := time.Now().Add(l.late); l.open() > 0 && time.Now().Before(end); {
		<-check.C
	}
}

// Sent is how many queries were sent so far.
func (l *Load) Sent() int64 { return l.sum(func(c *client) int64 { return c.sent.Load() }) }

func (l *Load) open() int64 {
	return l.sum(func(c *client) int64 { return c.sent.Load() - c.answered.Load() })
}

func (l *Load) sum(of func(*client) int64) (n int64) {
	for _, c := range l.clients {
		n += of(c)
	}
	return n
}

// Stop sends no more, from when it returns. It is called once.
func (l *Load) Stop() {
	l.end()
	l.sender.Wait()
	l.ended = time.Since(l.begin)
}

func (l *Load) end() {
	select {
	case <-l.quit:
	default:
		close(l.quit)
	}
}

// Result waits until all replies have come, or no more are waited for. Stop comes first.
func (l *Load) Result() Result {
	l.awaitReplies()
	for _, c := range l.clients {
		_ = c.conn.SetReadDeadline(time.Now())
	}
	l.readers.Wait()
	return Result{
		Due: l.due.Load(), Sent: l.Sent(), Lost: l.open(), Took: l.ended,
		Wrong: l.sum(func(c *client) int64 { return c.wrong.Load() }),
	}
}

// client is one socket. One goroutine sends by it and another receives.
type client struct {
	conn    *net.UDPConn
	batched *ipv4.PacketConn
	queries []Query
	out     []ipv4.Message
	buffers []byte               // of the messages in out: a query may be in one batch more than once, under different ids
	next    uint16               // id
	pending [1 << 16]atomic.Bool // by id. One that is still open after 65,536 others counts as lost

	sent, answered, wrong atomic.Int64
}

// maxQuery is the longest query.
const maxQuery = 512

func dial(addr string, queries []Query) (*client, error) {
	conn, err := net.Dial("udp", addr)
	if err != nil {
		return nil, err
	}
	udp := conn.(*net.UDPConn)
	_ = udp.SetReadBuffer(readBuffer) // the system may give less
	c := &client{conn: udp, batched: ipv4.NewPacketConn(udp), queries: queries, out: make([]ipv4.Message, batch), buffers: make([]byte, batch*maxQuery)}
	for i := range c.out {
		c.out[i].Buffers = make([][]byte, 1)
	}
	if len(queries) == 0 {
		err = errors.New("no queries")
	}
	for _, q := range queries {
		if len(q.Wire) < wire.HeaderLen || len(q.Wire) > maxQuery {
			err = fmt.Errorf("a query of %d bytes", len(q.Wire))
		}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// query is the one that is asked under an id.
func (c *client) query(id uint16) Query { return c.queries[int(id)%len(c.queries)] }

// ask sends the next n queries.
func (c *client) ask(n int) {
	for n > 0 {
		k := min(n, batch)
		for i := range k {
			b := c.buffers[i*maxQuery : (i+1)*maxQuery]
			id := c.next + uint16(i)
			b = b[:copy(b, c.query(id).Wire)]
			binary.BigEndian.PutUint16(b, id)
			c.out[i].Buffers[0] = b
			c.pending[id].Store(true)
		}
		sent := 0
		for sent < k {
			m, err := c.batched.WriteBatch(c.out[sent:k], 0)
			c.sent.Add(int64(max(m, 0)))
			sent += max(m, 0)
			if err != nil { // the first one could not be sent, perhaps because of an error that came back for one before it
				c.pending[c.next+uint16(sent)].Store(false)
				sent++
			}
		}
		c.next += uint16(k)
		n -= k
	}
}

// receive counts replies until the connection's deadline.
func (c *client) receive() {
	in := make([]ipv4.Message, batch)
	for i := range in {
		in[i].Buffers = [][]byte{make([]byte, 4096)}
	}
	for {
		n, err := c.batched.ReadBatch(in, 0)
		if err != nil && !errors.Is(err, syscall.ECONNREFUSED) { // that one is of a query that came when the server had ended
			return
		}
		for _, m := range in[:max(n, 0)] {
			c.take(m.Buffers[0][:m.N])
		}
	}
}

func (c *client) take(reply []byte) {
	if len(reply) < wire.HeaderLen {
		return
	}
	id := binary.BigEndian.Uint16(reply)
	if !c.pending[id].Swap(false) {
		return
	}
	c.answered.Add(1)
	rc := wire.RCode(reply[3] & 0xF)
	if rc != wire.RCodeNoError && rc != wire.RCodeNXDomain && !c.query(id).MayFail {
		c.wrong.Add(1)
	}
}

// Drops is how many datagrams the kernel has thrown away because a socket was full: one of the server at addr, and one of its clients. Both
// happen where the machine has no time for the process; it is 0 where the system does not say.
func Drops(addr string) (atServer, atClients int) {
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	hex := fmt.Sprintf(":%04X", n)
	table, _ := os.ReadFile("/proc/net/udp")
	for l := range strings.Lines(string(table)) {
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
