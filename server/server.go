package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Listener is one address to serve and what is served there.
type Listener struct {
	Host   string   // IP address to bind to; "" for all, IPv4 and IPv6
	Port   string   // "0" for any free one, see Server.Addrs
	Blocks []*Block // in the order of the Corefile
	// Unrouted see the queries that no block takes: those outside every zone (REFUSED), and malformed ones.
	Unrouted []Observer
	Sockets  int // UDP sockets that share the port; 0 for one per CPU that may be used (Linux; elsewhere always one)
}

// key tells listeners apart across configurations.
func (l *Listener) key() string { return net.JoinHostPort(l.Host, l.Port) }

// Server serves listeners. Its methods may be called concurrently.
type Server struct {
	engine *engine
	mu     sync.Mutex
	bound  map[string]*endpoint
	closed bool
}

// endpoint is one bound address: its sockets and the routes that they use now.
type endpoint struct {
	table atomic.Pointer[table]
	addr  netip.AddrPort
	udp   []*udpSocket
	tcp   *tcpSocket
	wg    sync.WaitGroup // the goroutines that read the UDP sockets
}

type udpSocket struct {
	*endpoint
	engine *engine
	conn   *net.UDPConn
	local  netip.AddrPort
	shard  int
}

type tcpSocket struct {
	*endpoint
	engine    *engine
	ln        net.Listener
	transport Transport
	shard     int
	mu        sync.Mutex
	conns     map[*tcpConn]struct{}
	perClient map[netip.Addr]int
	draining  bool
	wg        sync.WaitGroup
}

// New makes a server that serves nothing yet.
func New(l Limits, h Hooks) *Server {
	return &Server{engine: newEngine(l, h), bound: map[string]*endpoint{}}
}

// Parked is how many queries wait at the moment.
func (s *Server) Parked() int64 { return s.engine.parked.Load() }

// Apply makes listeners what is served. Addresses that were served before keep their sockets, on which no query is lost: those being
// answered finish with the blocks that they began with. New addresses are bound first; if one cannot be, nothing has changed and
// the error names it. Addresses that are not served any more are drained and closed in the background.
func (s *Server) Apply(listeners []Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the server is stopping")
	}
	next := make(map[string]*endpoint, len(listeners))
	var fresh []*endpoint
	for i := range listeners {
		l := &listeners[i]
		ep := s.bound[l.key()]
		if ep == nil {
			var err error
			if ep, err = s.engine.bind(l); err != nil {
				for _, f := range fresh {
					f.close()
				}
				return err
			}
			fresh = append(fresh, ep)
		}
		next[l.key()] = ep
	}
	for i := range listeners {
		next[listeners[i].key()].table.Store(newTable(s.engine, &listeners[i]))
	}
	for _, ep := range fresh {
		ep.start()
	}
	for key, ep := range s.bound {
		if next[key] == nil {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				s.drain(ctx, []*endpoint{ep})
			}()
		}
	}
	s.bound = next
	return nil
}

// Addrs are the bound addresses by what was asked for: "host:port" as in Listener to the address and port in use.
func (s *Server) Addrs() map[string]netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]netip.AddrPort, len(s.bound))
	for k, ep := range s.bound {
		out[k] = ep.addr
	}
	return out
}

// Shutdown answers what has arrived, waits for parked queries, and closes all sockets; or closes them when ctx ends. The server
// cannot be used after that.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	all := make([]*endpoint, 0, len(s.bound))
	for _, ep := range s.bound {
		all = append(all, ep)
	}
	s.bound = nil
	s.mu.Unlock()
	return s.drain(ctx, all)
}

// drain stops reading, waits until what was read is answered, and closes.
func (s *Server) drain(ctx context.Context, eps []*endpoint) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, ep := range eps {
			ep.stop()
		}
		for _, ep := range eps {
			ep.wg.Wait()
			ep.tcp.wg.Wait()
		}
		s.engine.waiting.Wait()
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	for _, ep := range eps {
		ep.close()
	}
	return err
}

// bind opens the sockets of one listener: as many UDP sockets as asked for, and a TCP one on the same port.
func (e *engine) bind(l *Listener) (*endpoint, error) {
	var err error
	for range 20 { // with port 0, the port that UDP was given may be taken for TCP
		var ep *endpoint
		if ep, err = e.tryBind(l); err == nil || l.Port != "0" {
			return ep, err
		}
	}
	return nil, err
}

func (e *engine) tryBind(l *Listener) (*endpoint, error) {
	n := l.Sockets
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	if runtime.GOOS != "linux" {
		n = 1
	}
	ep := &endpoint{}
	port := l.Port
	for i := range n {
		conn, err := listenUDP(net.JoinHostPort(l.Host, port))
		if err != nil {
			ep.close()
			return nil, fmt.Errorf("cannot listen on UDP %s: %w%s", l.key(), err, advice(err))
		}
		if i == 0 {
			ep.addr = conn.LocalAddr().(*net.UDPAddr).AddrPort()
			port = fmt.Sprint(ep.addr.Port())
		}
		ep.udp = append(ep.udp, &udpSocket{endpoint: ep, engine: e, conn: conn, local: ep.addr, shard: i})
	}
	lc := net.ListenConfig{Control: reusePort}
	ln, err := lc.Listen(context.Background(), "tcp", net.JoinHostPort(l.Host, port))
	if err != nil {
		ep.close()
		return nil, fmt.Errorf("cannot listen on TCP %s: %w%s", l.key(), err, advice(err))
	}
	ep.tcp = &tcpSocket{endpoint: ep, engine: e, ln: ln, transport: TCP, shard: n, conns: map[*tcpConn]struct{}{}, perClient: map[netip.Addr]int{}}
	return ep, nil
}

// advice says what to do about the two errors that people meet when a port is bound.
func advice(err error) string {
	switch {
	case errors.Is(err, syscall.EACCES):
		return " (ports below 1024 need root or the capability NET_BIND_SERVICE; try -dns.port 1053)"
	case errors.Is(err, syscall.EADDRINUSE):
		return " (another server has this port; stop it, or choose another with -dns.port)"
	}
	return ""
}

// start begins to serve; the table is set.
func (ep *endpoint) start() {
	for _, u := range ep.udp {
		ep.wg.Go(u.serve)
	}
	ep.tcp.wg.Go(ep.tcp.serve)
}

// stop makes the readers end once they have answered what has arrived.
func (ep *endpoint) stop() {
	past := time.Unix(1, 0)
	for _, u := range ep.udp {
		_ = u.conn.SetReadDeadline(past)
	}
	ep.tcp.drain()
}

// close closes the sockets, whatever they are doing.
func (ep *endpoint) close() {
	for _, u := range ep.udp {
		u.conn.Close()
	}
	if ep.tcp != nil {
		ep.tcp.closeAll()
	}
}

// add counts a new connection, or says false when its client has too many or the server stops. Over the limit of all, the one that was
// idle longest makes place.
func (l *tcpSocket) add(c *tcpConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining || l.perClient[c.client.Addr()] >= l.engine.limits.TCPPerClient {
		l.engine.count(LimitTCPPerClient)
		return false
	}
	if len(l.conns) >= l.engine.limits.TCPConns {
		l.engine.count(LimitTCPConns)
		l.evict()
	}
	l.conns[c] = struct{}{}
	l.perClient[c.client.Addr()]++
	l.wg.Add(1)
	return true
}

// evict closes the connection that was idle longest. Its goroutine sees that and removes it. It looks at all of them, which happens only
// at the limit and costs less than the handshake of the one that comes.
func (l *tcpSocket) evict() {
	var oldest *tcpConn
	for c := range l.conns {
		if oldest == nil || c.last.Load() < oldest.last.Load() {
			oldest = c
		}
	}
	if oldest != nil {
		oldest.conn.Close()
		l.forget(oldest)
	}
}

// forget takes a connection out of the counts; the lock is held.
func (l *tcpSocket) forget(c *tcpConn) {
	if _, ok := l.conns[c]; !ok {
		return
	}
	delete(l.conns, c)
	a := c.client.Addr()
	if l.perClient[a]--; l.perClient[a] == 0 {
		delete(l.perClient, a)
	}
}

func (l *tcpSocket) remove(c *tcpConn) {
	l.mu.Lock()
	l.forget(c)
	l.mu.Unlock()
	l.wg.Done()
}

// idle begins the time that a connection may wait for its next query; false means that the server stops.
func (l *tcpSocket) idle(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining {
		return false
	}
	return c.SetReadDeadline(time.Now().Add(l.engine.limits.TCPIdle)) == nil
}

// drain takes no more connections and ends those that wait for a query.
func (l *tcpSocket) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	l.ln.Close()
	for c := range l.conns {
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

func (l *tcpSocket) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	l.ln.Close()
	for c := range l.conns {
		c.conn.Close()
	}
}

// settled is nothing to a UDP socket, which has no end to wait for.
func (u *udpSocket) settled() {}
