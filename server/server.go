package server

import (
	"context"
	"crypto/tls"
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
	Transport Transport // UDP stands for DNS over both UDP and TCP; TLS (RFC 7858) and HTTPS (RFC 8484) for themselves
	Host      string    // IP address to bind to; "" for all, IPv4 and IPv6
	Port      string    // "0" for any free one, see Server.Addrs
	Blocks    []*Block  // in the order of the Corefile
	// TLS is what TLS and HTTPS listeners serve with; it is read for every connection, so Apply changes it. HTTPS without one is plain HTTP, for
	// use behind a proxy.
	TLS *tls.Config
	// Timeouts are those of the connections. Connections of HTTPS keep the ones that they were made with.
	Timeouts Timeouts
	// Unrouted see the queries that no block takes: those outside every zone (REFUSED), and malformed ones.
	Unrouted []Observer
	Sockets  int // UDP sockets that share the port; 0 for one per CPU that may be used (Linux; elsewhere always one)
}

// key tells listeners apart across configurations.
func (l *Listener) key() string {
	addr := net.JoinHostPort(l.Host, l.Port)
	switch {
	case l.Transport == TLS:
		return "tls://" + addr
	case l.Transport == HTTPS && l.TLS == nil:
		return "http://" + addr
	case l.Transport == HTTPS:
		return "https://" + addr
	}
	return addr
}

// Server serves listeners. Its methods may be called concurrently.
type Server struct {
	engine *engine
	mu     sync.Mutex
	bound  map[string]*endpoint
	closed bool
}

// endpoint is one bound address: its sockets and the routes that they use now.
type endpoint struct {
	table    atomic.Pointer[table]
	tls      atomic.Pointer[tls.Config]
	timeouts atomic.Pointer[Timeouts]
	addr     netip.AddrPort
	udp      []*udpSocket
	tcp      stream
	wg       sync.WaitGroup // the goroutines that read UDP sockets and accept connections
	waiting  sync.WaitGroup // queries by UDP that are parked. The first of them is counted by one of wg's goroutines, so whoever waits for these waits for those before
}

// stream is a listener of connections.
type stream interface {
	serve()    // until it is drained or closed
	drain()    // takes no more connections, and ends those that are between queries
	wait()     // until no connection is left
	closeAll() // whatever they are doing
}

type udpSocket struct {
	*endpoint
	engine *engine
	conn   *net.UDPConn
	raw    syscall.RawConn // of conn
	local  netip.AddrPort
	shard  int
	full   atomic.Bool // somebody waits for room to send
	late   late
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
	s.engine.crew.on.Store(true)
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
				return &ListenError{Index: i, Err: err}
			}
			fresh = append(fresh, ep)
		}
		next[l.key()] = ep
	}
	for i := range listeners {
		ep := next[listeners[i].key()]
		ep.tls.Store(listeners[i].TLS)
		ep.timeouts.Store(listeners[i].Timeouts.complete(s.engine.limits))
		ep.table.Store(newTable(s.engine, &listeners[i]))
	}
	for _, ep := range fresh {
		ep.start()
	}
	for key, ep := range s.bound {
		if next[key] == nil {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				_ = s.drain(ctx, []*endpoint{ep}) // at its end the sockets are closed anyhow
			}()
		}
	}
	s.bound = next
	return nil
}

// ListenError says which of the listeners given to Apply could not be bound.
type ListenError struct {
	Index int
	Err   error
}

func (e *ListenError) Error() string { return e.Err.Error() }
func (e *ListenError) Unwrap() error { return e.Err }

// Addrs are the bound addresses by what was asked for: "host:port" as in Listener, with
// "tls://" or "https://" before it for those transports, to the address and port in use.
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
			ep.tcp.wait()
			ep.waiting.Wait()
		}
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
	ep := &endpoint{}
	ep.timeouts.Store(l.Timeouts.complete(e.limits))
	number, shard := l.Port, 0
	if l.Transport == UDP {
		shard = l.sockets()
		e.lookForOthers(l)
		for i := range shard {
			conn, err := listenUDP(net.JoinHostPort(l.Host, number))
			if err != nil {
				ep.close()
				return nil, fmt.Errorf("cannot listen on UDP %s: %w%s", l.key(), err, advice(err))
			}
			raw, err := conn.SyscallConn()
			if err != nil {
				conn.Close()
				ep.close()
				return nil, err
			}
			if i == 0 {
				ep.addr = conn.LocalAddr().(*net.UDPAddr).AddrPort()
				number = fmt.Sprint(ep.addr.Port())
			}
			ep.udp = append(ep.udp, &udpSocket{endpoint: ep, engine: e, conn: conn, raw: raw, local: ep.addr, shard: i})
		}
	}
	lc := net.ListenConfig{Control: SharePort}
	ln, err := lc.Listen(context.Background(), "tcp", net.JoinHostPort(l.Host, number))
	if err != nil {
		ep.close()
		return nil, fmt.Errorf("cannot listen on TCP %s: %w%s", l.key(), err, advice(err))
	}
	ep.addr = ln.Addr().(*net.TCPAddr).AddrPort()
	port := &acceptor{TCPListener: ln.(*net.TCPListener)}
	switch l.Transport {
	case TLS:
		ep.tcp = newTCPSocket(ep, e, port, tls.NewListener(port, &tls.Config{GetConfigForClient: ep.tlsConfig}), TLS, shard)
	case HTTPS:
		ep.tcp = newHTTPSocket(ep, e, port, l.TLS != nil)
	default:
		ep.tcp = newTCPSocket(ep, e, port, port, TCP, shard)
	}
	return ep, nil
}

// lookForOthers tells the hook if the address is in use already, which sharing the port would hide.
func (e *engine) lookForOthers(l *Listener) {
	if e.hooks.Shared == nil || l.Port == "0" {
		return
	}
	addr := net.JoinHostPort(l.Host, l.Port)
	conn, err := net.ListenPacket("udp", addr)
	if err == nil {
		conn.Close()
		return
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		e.hooks.Shared(addr)
	}
}

// sockets is how many UDP sockets the listener gets.
func (l *Listener) sockets() int {
	switch {
	case runtime.GOOS != "linux":
		return 1
	case l.Sockets > 0:
		return l.Sockets
	}
	return runtime.GOMAXPROCS(0)
}

// tlsConfig gives the configuration that is served now, to each new connection.
func (ep *endpoint) tlsConfig(*tls.ClientHelloInfo) (*tls.Config, error) {
	if c := ep.tls.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("no certificate is configured for this listener")
}

// advice says what to do about the two errors that people meet when a port is bound.
func advice(err error) string {
	switch {
	case errors.Is(err, syscall.EACCES):
		return " (ports below 1024 need root or the capability NET_BIND_SERVICE; try -dns.port 1053)"
	case errors.Is(err, syscall.EADDRINUSE):
		return " (another server has this port: is another clusterdns running? choose another port with -dns.port)"
	}
	return ""
}

// start begins to serve; the table is set.
func (ep *endpoint) start() {
	for _, u := range ep.udp {
		ep.wg.Go(u.serve)
	}
	ep.wg.Go(ep.tcp.serve)
}

// stop leaves the port to others who share it, and makes the readers end once they have answered what has arrived.
func (ep *endpoint) stop() {
	end := time.Now().Add(lastRead)
	for _, u := range ep.udp {
		u.leave()
		_ = u.conn.SetReadDeadline(end)
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

// hold implements responder.
func (u *udpSocket) hold(n int) { u.waiting.Add(n) }

// respond sends the reply of a query that had been parked.
func (u *udpSocket) respond(s *slab, out outcome, t *Turn) {
	if out == replied && t != nil {
		t.replies = append(t.replies, s)
		return
	}
	if out == replied {
		u.send(s)
	}
	u.engine.settle(s)
}
