package server

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterdns/clusterdns/server/wire"
)

// tcpWrite is the default of Timeouts.Write.
const tcpWrite = 5 * time.Second

// acceptPause is how long a listener waits after an error, such as that of a process that is out of file descriptors: others must be closed first.
const acceptPause = 5 * time.Millisecond

// again waits after an error of Accept and says whether to try once more. Only a listener that is closed has come to its end: everything else is of one
// connection or passes, such as errors of the network and want of memory (accept(2)).
func again(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return false
	}
	time.Sleep(acceptPause)
	return true
}

// deadlineStep is how much of the idle time may pass before a busy connection's read deadline is moved: moving it for
// every query would cost more than the query.
const deadlineStep = time.Second

// What a draining server still reads: of a socket what has been sent already, which is there at once, and of a client that never stops no more
// than so many buffers. To close with something unread would reset the connection, and take replies that are under way with it.
const (
	lastRead  = 20 * time.Millisecond
	lastReads = 64
)

// tcpSocket accepts TCP or TLS connections.
type tcpSocket struct {
	*endpoint
	conns     connSet
	port      *acceptor
	ln        net.Listener // the port, or TLS on it
	transport Transport
	shard     int
}

func newTCPSocket(ep *endpoint, e *engine, port *acceptor, ln net.Listener, t Transport, shard int) *tcpSocket {
	return &tcpSocket{endpoint: ep, conns: newConnSet(e), port: port, ln: ln, transport: t, shard: shard}
}

// tcpConn is one TCP or TLS connection. Queries are read and answered in order, but one that has to wait does not hold up those behind it:
// its reply is sent when it is there (RFC 7766 6.2.1.1).
type tcpConn struct {
	tracked
	l         *tcpSocket
	in        []byte     // receive buffer
	turn      *Turn      // of the reader
	mu        sync.Mutex // guards w and stuck
	w         *bufio.Writer
	stuck     bool // writing has failed
	waited    waited
	wg        sync.WaitGroup // queries of this connection that are parked
	open      atomic.Int64   // how many those are
	freed     chan struct{}  // holds one when open has come down to the limit
	lastReads int            // that a draining server has made
}

func (l *tcpSocket) serve() {
	for {
		conn, err := l.ln.Accept()
		if err != nil {
			if again(err) {
				continue
			}
			return
		}
		c := &tcpConn{tracked: tracked{conn: conn}, l: l, turn: NewTurn(), w: bufio.NewWriterSize(conn, 4096), freed: make(chan struct{}, 1)}
		if !l.conns.add(&c.tracked) {
			continue
		}
		go func() {
			defer l.conns.remove(&c.tracked)
			c.serve()
		}()
	}
}

// drain takes no more connections than have been made, and ends those that wait for a query.
func (l *tcpSocket) drain() {
	l.port.leave()
	l.conns.drain(func(c net.Conn) { _ = c.SetReadDeadline(time.Unix(1, 0)) })
}

func (l *tcpSocket) wait() { l.conns.wg.Wait() }

func (l *tcpSocket) closeAll() {
	l.ln.Close()
	l.conns.close(cut)
}

// serve reads queries until the client closes, is idle or slow for too long, has made as many as it may, or the server drains. A deadline covers a whole
// query, so a client that sends it byte by byte is cut off like an idle one.
func (c *tcpConn) serve() {
	defer c.conn.Close()
	r := bufio.NewReaderSize(c.conn, 4096)
	local := addrPort(c.conn.LocalAddr())
	var moved time.Time
	for n := 1; ; n++ {
		t := c.l.timeouts.Load()
		c.slacken()
		if t.Queries > 0 && n > t.Queries || !c.await(r, t, &moved) {
			break
		}
		s := c.l.conns.engine.take()
		n, err := readFrame(r, &c.in, c.l.conns.engine.limits.QuerySize)
		if err != nil {
			c.refused(err)
			c.l.conns.engine.release(s)
			break
		}
		q := &s.q
		q.raw, q.table, q.Transport, q.Received, q.Shard = c.in[:n], c.l.table.Load(), c.l.transport, time.Now(), c.l.shard
		q.Client, q.Local = c.client, local
		s.out, s.turn, q.slab = c, c.turn, s
		c.wg.Add(1)
		c.open.Add(1)
		switch c.l.conns.engine.process(s) {
		case parked:
			continue // respond does the rest: the slab is not ours any more
		case replied:
			if !c.ready(len(s.r.buf)) {
				c.turn.End() // other clients may wait for the same questions, and this one may not read for long
			}
			err = c.write(s)
		}
		c.open.Add(-1)
		c.wg.Done()
		c.l.conns.engine.release(s)
		if err != nil {
			break
		}
	}
	c.turn.End()
	c.wg.Wait()
	_ = c.flush()
}

// slacken waits while too many queries of the connection do. It is at most as long as a query may wait.
func (c *tcpConn) slacken() {
	limit := int64(c.l.conns.engine.limits.TCPQueries)
	if limit <= 0 || c.open.Load() < limit {
		return
	}
	c.turn.End() // or what it waits for is never sent
	_ = c.flush()
	c.l.conns.engine.count(LimitTCPQueries)
	for c.open.Load() >= limit {
		<-c.freed
	}
}

// await waits for the first byte of a query, and begins the time for the rest of it unless all of it is there. moved is when the idle time
// was last begun.
func (c *tcpConn) await(r *bufio.Reader, t *Timeouts, moved *time.Time) bool {
	if whole(r) {
		return true
	}
	c.turn.End()
	if c.flush() != nil { // nothing is held back while we wait
		return false
	}
	if now := time.Now(); now.Sub(*moved) > min(deadlineStep, t.Idle/4) {
		if !c.l.conns.allow(&c.tracked, t.Idle) {
			return c.awaitLast(r)
		}
		*moved = now
	}
	if _, err := r.Peek(1); err != nil {
		return c.l.conns.stopping() && c.awaitLast(r)
	}
	if whole(r) {
		return true
	}
	*moved = time.Time{}
	return c.l.conns.allow(&c.tracked, t.Read) || c.awaitLast(r)
}

// awaitLast is await while the server drains: only what has arrived counts.
func (c *tcpConn) awaitLast(r *bufio.Reader) bool {
	if c.lastReads++; c.lastReads > lastReads || c.conn.SetReadDeadline(time.Now().Add(lastRead)) != nil {
		return false
	}
	_, err := r.Peek(1)
	return err == nil
}

// whole says whether a query is in the buffer from its first byte to its last.
func whole(r *bufio.Reader) bool {
	if r.Buffered() < 2 {
		return false
	}
	l, err := r.Peek(2)
	return err == nil && r.Buffered() >= 2+int(binary.BigEndian.Uint16(l))
}

// errLong is of a query that is over Limits.QuerySize.
var errLong = errors.New("the query is too long")

// refused counts why a query could not be read.
func (c *tcpConn) refused(err error) {
	e := c.l.conns.engine
	if errors.Is(err, errLong) {
		e.count(LimitQuerySize)
		return
	}
	e.countLate(err, LimitTCPRead)
}

// readFrame reads one message of at most longest bytes behind its two-byte length (RFC 1035 4.2.2) into buf, which grows for a long one. A length that is too short
// for a header ends the connection: nothing can be replied to it, and with zeros alone a client would never be idle.
func readFrame(r *bufio.Reader, buf *[]byte, longest int) (int, error) {
	var l [2]byte
	if _, err := io.ReadFull(r, l[:]); err != nil {
		return 0, err
	}
	n := int(binary.BigEndian.Uint16(l[:]))
	if n < wire.HeaderLen {
		return 0, wire.ErrShort
	}
	if n > longest {
		return 0, errLong
	}
	if n > len(*buf) {
		*buf = make([]byte, max(n, 512)) // most queries are shorter
	}
	_, err := io.ReadFull(r, (*buf)[:n])
	return n, err
}

// ready says whether a reply of n bytes can be written without waiting for the client.
func (c *tcpConn) ready(n int) bool {
	if !c.mu.TryLock() {
		return false // replies are being sent
	}
	defer c.mu.Unlock()
	return c.w.Available() >= n+2
}

// write appends a reply to what is to be sent. An error is that of what was sent to make room, and stays.
func (c *tcpConn) write(s *slab) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(s.r.buf)
	if c.w.Available() < n+2 { // what does not fit is sent now
		_ = c.conn.SetWriteDeadline(time.Now().Add(c.l.timeouts.Load().Write))
	}
	c.last.Store(s.q.Received.UnixNano())
	_ = c.w.WriteByte(byte(n >> 8))
	_ = c.w.WriteByte(byte(n))
	_, err := c.w.Write(s.r.buf)
	return c.failed(err)
}

func (c *tcpConn) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.w.Buffered() == 0 {
		return nil
	}
	_ = c.conn.SetWriteDeadline(time.Now().Add(c.l.timeouts.Load().Write))
	return c.failed(c.w.Flush())
}

// failed counts a client that takes no replies, once: errors of the writer stay. mu is held.
func (c *tcpConn) failed(err error) error {
	if err != nil && !c.stuck {
		c.stuck = true
		c.l.conns.engine.countLate(err, LimitTCPWrite)
	}
	return err
}

// waited are the queries of a connection that had been parked and are to be replied to.
type waited struct {
	mu    sync.Mutex
	slabs []*slab
	busy  bool // somebody is sending
}

// respond has a reply sent by a goroutine of the crew, since a client that does not read makes that wait. All that have gathered meanwhile are
// sent in one go.
func (c *tcpConn) respond(s *slab, out outcome, _ *Turn) {
	if out != replied {
		c.settle(s)
		return
	}
	c.waited.mu.Lock()
	c.waited.slabs = append(c.waited.slabs, s)
	busy := c.waited.busy
	c.waited.busy = true
	c.waited.mu.Unlock()
	if !busy {
		s.engine.crew.do(c)
	}
}

// hold implements responder: the connection counts each query from when it is read.
func (*tcpConn) hold(int) {}

// do implements task: it sends the replies that have gathered until there are no more.
func (c *tcpConn) do() {
	var batch []*slab
	for {
		c.waited.mu.Lock()
		batch, c.waited.slabs = c.waited.slabs, batch[:0]
		c.waited.busy = len(batch) > 0
		c.waited.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, s := range batch {
			_ = c.write(s) // flush says it again
		}
		if c.flush() != nil {
			c.conn.Close()
		}
		for i, s := range batch {
			c.settle(s)
			batch[i] = nil
		}
	}
}

// settle ends a query that had been parked.
func (c *tcpConn) settle(s *slab) {
	s.engine.settle(s)
	if c.open.Add(-1) == int64(s.engine.limits.TCPQueries)-1 {
		select {
		case c.freed <- struct{}{}:
		default:
		}
	}
	c.wg.Done()
}

// send sends one message of several.
func (c *tcpConn) send(s *slab) {
	if c.write(s) != nil || c.flush() != nil {
		c.conn.Close()
	}
}
