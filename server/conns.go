package server

import (
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// tracked is a connection with what decides who goes first when there are too many.
type tracked struct {
	conn   net.Conn
	client netip.AddrPort
	last   atomic.Int64 // when it was made or last used, in nanoseconds of the Unix epoch
}

// connSet holds the connections of one listener within the limits.
type connSet struct {
	engine    *engine
	mu        sync.Mutex
	all       map[*tracked]struct{}
	perClient map[netip.Addr]int
	draining  bool // only what has been sent already is read
	closed    bool // nothing is read, and no connection taken
	wg        sync.WaitGroup
}

func newConnSet(e *engine) connSet {
	return connSet{engine: e, all: map[*tracked]struct{}{}, perClient: map[netip.Addr]int{}}
}

// add counts a new connection, or closes it and says false when its client has too many or the listener is closed. Over the limit of all, the
// one that was idle longest makes place.
func (s *connSet) add(c *tracked) bool {
	c.client = addrPort(c.conn.RemoteAddr())
	c.last.Store(time.Now().UnixNano())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.perClient[c.client.Addr()] >= s.engine.limits.TCPPerClient {
		if !s.closed {
			s.engine.count(LimitTCPPerClient)
		}
		cut(c.conn)
		return false
	}
	if len(s.all) >= s.engine.limits.TCPConns {
		s.engine.count(LimitTCPConns)
		s.evict()
	}
	s.all[c] = struct{}{}
	s.perClient[c.client.Addr()]++
	s.wg.Add(1)
	return true
}

// evict closes the connection that was idle longest. Whoever serves it sees that and removes it. It looks at all of them, which
// happens only at the limit and costs less than the handshake of the one that comes.
func (s *connSet) evict() {
	var oldest *tracked
	for c := range s.all {
		if oldest == nil || c.last.Load() < oldest.last.Load() {
			oldest = c
		}
	}
	if oldest != nil {
		cut(oldest.conn)
		s.forget(oldest)
	}
}

// cut closes a connection at once. One of TLS would say so to its client first, and wait for one that does not read.
func cut(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	c.Close()
}

// forget takes a connection out of the counts; the lock is held.
func (s *connSet) forget(c *tracked) {
	if _, ok := s.all[c]; !ok {
		return
	}
	delete(s.all, c)
	a := c.client.Addr()
	if s.perClient[a]--; s.perClient[a] == 0 {
		delete(s.perClient, a)
	}
}

// remove is called once for each connection that was added, when nobody serves it any more.
func (s *connSet) remove(c *tracked) {
	s.mu.Lock()
	s.forget(c)
	s.mu.Unlock()
	s.wg.Done()
}

// allow gives a connection some time from now for what it is to send next; false means that the server stops.
func (s *connSet) allow(c *tracked, d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	return c.conn.SetReadDeadline(time.Now().Add(d)) == nil
}

// stopping says whether the server drains.
func (s *connSet) stopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// drain says that the server stops; each is called for the connections that are there.
func (s *connSet) drain(each func(net.Conn)) { s.stop(false, each) }

// close is drain, and no more connections are taken.
func (s *connSet) close(each func(net.Conn)) { s.stop(true, each) }

func (s *connSet) stop(closed bool, each func(net.Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining, s.closed = true, s.closed || closed
	for c := range s.all {
		each(c.conn)
	}
}

func addrPort(a net.Addr) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok {
		ap := t.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
	}
	return netip.AddrPort{}
}
