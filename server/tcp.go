package server

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// tcpWrite bounds how long a client may take to accept a reply; one that reads nothing for so long holds memory for nobody.
const tcpWrite = 5 * time.Second

// deadlineStep is how much of the idle time may pass before a busy connection's read deadline is moved: moving it for
// every query of a pipeline would cost more than the query.
const deadlineStep = time.Second

// tcpConn is one TCP or TLS connection. Queries are read and answered in order, but one that has to wait does not hold up those behind it:
// its reply is sent when it is there (RFC 7766 6.2.1.1).
type tcpConn struct {
	l      *tcpSocket
	conn   net.Conn
	client netip.AddrPort
	last   atomic.Int64 // when it was made or last answered, in nanoseconds of the Unix epoch
	mu     sync.Mutex   // guards w
	w      *bufio.Writer
	wg     sync.WaitGroup // queries of this connection that are parked
}

func (l *tcpSocket) serve() {
	for {
		conn, err := l.ln.Accept()
		if err != nil {
			if isTemporary(err) {
				time.Sleep(5 * time.Millisecond) // out of file descriptors: others must be closed first
				continue
			}
			return
		}
		c := &tcpConn{l: l, conn: conn, client: addrPort(conn.RemoteAddr()), w: bufio.NewWriterSize(conn, 4096)}
		c.last.Store(time.Now().UnixNano())
		if !l.add(c) {
			conn.Close()
			continue
		}
		go func() {
			defer l.remove(c)
			c.serve()
		}()
	}
}

// serve reads queries until the client closes, is idle for too long, or the server drains. The deadline covers a whole query, so
// a client that sends it byte by byte is cut off like an idle one.
func (c *tcpConn) serve() {
	defer c.conn.Close()
	r := bufio.NewReaderSize(c.conn, 4096)
	local := addrPort(c.conn.LocalAddr())
	var moved time.Time
	for {
		now := time.Now()
		if r.Buffered() == 0 && c.flush() != nil {
			break
		}
		if now.Sub(moved) > deadlineStep {
			if !c.l.idle(c.conn) {
				break
			}
			moved = now
		}
		s := c.l.engine.take()
		n, err := readFrame(r, &s.in)
		if err != nil {
			c.l.engine.release(s)
			break
		}
		q := &s.q
		q.raw, q.table, q.Transport, q.Received, q.Shard = s.in[:n], c.l.table.Load(), c.l.transport, time.Now(), c.l.shard
		q.Client, q.Local = c.client, local
		s.out = c
		c.wg.Add(1)
		switch c.l.engine.process(s) {
		case parked:
			continue // respond says Done, and the slab is not ours any more
		case replied:
			c.write(s)
		}
		c.wg.Done()
		c.l.engine.release(s)
	}
	c.wg.Wait()
	_ = c.flush()
}

// readFrame reads one message behind its two-byte length (RFC 1035 4.2.2) into buf, which grows for a long one.
func readFrame(r *bufio.Reader, buf *[]byte) (int, error) {
	var l [2]byte
	if _, err := io.ReadFull(r, l[:]); err != nil {
		return 0, err
	}
	n := int(binary.BigEndian.Uint16(l[:]))
	if n > len(*buf) {
		*buf = make([]byte, n)
	}
	_, err := io.ReadFull(r, (*buf)[:n])
	return n, err
}

// write appends a reply to what is to be sent.
func (c *tcpConn) write(s *slab) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(s.r.buf)
	if c.w.Available() < n+2 { // what does not fit is sent now
		_ = c.conn.SetWriteDeadline(time.Now().Add(tcpWrite))
	}
	c.last.Store(s.q.Received.UnixNano())
	_ = c.w.WriteByte(byte(n >> 8))
	_ = c.w.WriteByte(byte(n))
	_, _ = c.w.Write(s.r.buf) // errors stick to the writer and end the connection in flush
}

func (c *tcpConn) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.w.Buffered() == 0 {
		return nil
	}
	_ = c.conn.SetWriteDeadline(time.Now().Add(tcpWrite))
	return c.w.Flush()
}

// respond sends the reply of a query that had been parked.
func (c *tcpConn) respond(s *slab) {
	c.write(s)
	if c.flush() != nil {
		c.conn.Close()
	}
}

// settled is told when a parked query needs the connection no more, whether it was answered or dropped.
func (c *tcpConn) settled() { c.wg.Done() }

func addrPort(a net.Addr) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok {
		ap := t.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
	}
	return netip.AddrPort{}
}
