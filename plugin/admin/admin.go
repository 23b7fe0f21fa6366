// Package admin is the HTTP side of the process: the few end points that directives such as health, ready, prometheus and pprof have.
// An address is bound once, however many directives of however many server blocks name it, and keeps its socket across reloads: a new
// configuration swaps what is served behind it.
package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// headerPatience is how long a client may take over its request line and headers. Probes and scrapers send them in one packet.
	headerPatience = 5 * time.Second
	// idlePatience keeps a scraper's connection between two scrapes, which are a minute apart at the usual most.
	idlePatience = 2 * time.Minute
	// DefaultPatience is how long an answer may take to be made and fetched where a Route says nothing else. It is Prometheus'
	// default scrape time-out and more than any probe waits.
	DefaultPatience = 10 * time.Second
	// maxHeader is far over what probes and scrapers send.
	maxHeader = 16 << 10
	// maxConns bounds the connections of one address, so that whoever opens them by the thousand takes no file descriptors from DNS.
	maxConns = 256
	// acceptPause is how long an address waits after an error, such as that of a process that is out of file descriptors.
	acceptPause = 5 * time.Millisecond
	// closePatience is how long answers under way may take once their address is not served any more.
	closePatience = 5 * time.Second
)

// Route is one path on one address.
type Route struct {
	Addr     string // host:port as net.Listen takes it: what ParseAddress gave; or unix:PATH
	Path     string // a pattern of http.ServeMux without host: "/metrics"
	Handler  http.Handler
	TLS      *tls.Config   // nil for plain HTTP; all routes of an address must agree
	Patience time.Duration // how long one answer may take; 0 for DefaultPatience, below 0 for no limit
}

// Server serves routes. There is one in a process; it outlives configurations. Its methods may be called concurrently.
type Server struct {
	log    *slog.Logger
	mu     sync.Mutex
	bound  map[string]*endpoint
	share  Control
	closed bool
}

// endpoint is one bound address and what is served there now.
type endpoint struct {
	site  atomic.Pointer[site]
	ln    net.Listener
	http  *http.Server
	conns atomic.Int64
	done  chan struct{}
}

// site is what one configuration serves on one address. It is immutable once it is served.
type site struct {
	mux   *http.ServeMux
	paths map[string]bool
	tls   *tls.Config
}

// New makes a server that serves nothing yet.
func New(log *slog.Logger) *Server {
	return &Server{log: log, bound: map[string]*endpoint{}}
}

// Control prepares a socket, as that of net.ListenConfig does.
type Control = func(network, address string, c syscall.RawConn) error

// Share lets other processes have the same addresses that do it too, by control, which sets SO_REUSEPORT: whose answer a client gets is
// chance until one of them ends. It is for taking over from a process that runs, and is called before the first Apply.
func (s *Server) Share(control Control) { s.share = control }

// Apply makes routes what is served. Addresses that were served before keep their sockets; new ones are bound first, and if one cannot
// be, nothing has changed and the error names it. Addresses that no route names any more are closed. Of several routes with the same
// address and path the first counts: server blocks that share an end point say the same there.
func (s *Server) Apply(routes []Route) error {
	sites, order, err := build(routes)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the server is stopping")
	}
	next := make(map[string]*endpoint, len(sites))
	var fresh []*endpoint
	for _, addr := range order {
		ep := s.bound[addr]
		if ep == nil {
			if ep, err = s.bind(addr); err != nil {
				for _, f := range fresh {
					f.ln.Close()
				}
				return err
			}
			fresh = append(fresh, ep)
		}
		next[addr] = ep
	}
	for addr, ep := range next {
		ep.site.Store(sites[addr])
	}
	for _, ep := range fresh {
		go ep.serve()
	}
	for addr, ep := range s.bound {
		if next[addr] == nil {
			ep.ln.Close() // at once, so that another configuration can bind it again
			go ep.stop(context.Background())
		}
	}
	s.bound = next
	return nil
}

// AddressError says which address cannot be served.
type AddressError struct {
	Addr string
	Err  error
}

func (e *AddressError) Error() string { return e.Err.Error() }
func (e *AddressError) Unwrap() error { return e.Err }

// build sorts routes by address, in the order of their first mention.
func build(routes []Route) (sites map[string]*site, order []string, err error) {
	sites = map[string]*site{}
	for i := range routes {
		r := &routes[i]
		st := sites[r.Addr]
		if st == nil {
			st = &site{mux: http.NewServeMux(), paths: map[string]bool{}, tls: r.TLS}
			sites[r.Addr] = st
			order = append(order, r.Addr)
		}
		if (st.tls == nil) != (r.TLS == nil) {
			return nil, nil, &AddressError{r.Addr, fmt.Errorf("%s cannot be served with and without TLS at the same time", r.Addr)}
		}
		if !st.paths[r.Path] {
			st.paths[r.Path] = true
			st.mux.Handle(r.Path, limited(r))
		}
	}
	return sites, order, nil
}

// limited bounds the time that one answer takes, so that a client that reads slowly holds nothing for long.
func limited(r *Route) http.Handler {
	patience, h := r.Patience, r.Handler
	if patience == 0 {
		patience = DefaultPatience
	}
	if patience < 0 {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		// Writers that know no deadlines are those of tests.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience))
		h.ServeHTTP(w, req)
	})
}

// bind opens an address; nothing is served until serve.
func (s *Server) bind(addr string) (*endpoint, error) {
	ln, err := s.listen(addr)
	if err != nil {
		hint := ""
		if errors.Is(err, syscall.EADDRINUSE) {
			hint = " (another server has this port: is another clusterdns running?)"
		}
		return nil, &AddressError{addr, fmt.Errorf("cannot listen on HTTP address %s: %w%s", addr, err, hint)}
	}
	ep := &endpoint{ln: ln, done: make(chan struct{})}
	ep.http = &http.Server{
		Handler:           ep,
		ReadHeaderTimeout: headerPatience,
		IdleTimeout:       idlePatience,
		MaxHeaderBytes:    maxHeader,
		// What net/http says of single connections (TLS handshakes, resets) is the business of those who made them.
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return ep, nil
}

func (s *Server) listen(addr string) (net.Listener, error) {
	if path, ok := UnixPath(addr); ok {
		return listenUnix(path)
	}
	lc := net.ListenConfig{Control: s.share}
	return lc.Listen(context.Background(), "tcp", addr)
}

// listenUnix opens a Unix socket, in the place of one that a process left behind which was killed.
func listenUnix(path string) (net.Listener, error) {
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, syscall.EADDRINUSE
	}
	if st, err := os.Lstat(path); err == nil && st.Mode().Type() == fs.ModeSocket {
		_ = os.Remove(path) // if that fails, so does what follows, and says why
	}
	return net.Listen("unix", path)
}

// ServeHTTP serves a request by the configuration of the moment.
func (ep *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ep.site.Load().mux.ServeHTTP(w, r)
}

func (ep *endpoint) serve() {
	defer close(ep.done)
	_ = ep.http.Serve((*listener)(ep)) // ends when the endpoint is stopped, with the error that says so
}

// stop ends the endpoint: answers under way are finished, for closePatience or until ctx ends.
func (ep *endpoint) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closePatience)
	defer cancel()
	if ep.http.Shutdown(ctx) != nil {
		_ = ep.http.Close()
	}
	<-ep.done
}

// listener is an endpoint as http.Server takes its connections from it.
type listener endpoint

// Accept gives the next connection, in TLS if the address has it now. It fails only once the address is closed. Connections over the limit are closed at
// once: waiting would only queue them, and the probes behind them.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		if err != nil { // of one connection, or one that passes (accept(2)): http.Server would end with many of them
			time.Sleep(acceptPause)
			continue
		}
		if l.conns.Add(1) > maxConns {
			l.conns.Add(-1)
			c.Close()
			continue
		}
		c = &conn{Conn: c, conns: &l.conns}
		if cfg := l.site.Load().tls; cfg != nil {
			c = tls.Server(c, cfg)
		}
		return c, nil
	}
}

func (l *listener) Close() error   { return l.ln.Close() }
func (l *listener) Addr() net.Addr { return l.ln.Addr() }

// conn is counted until it is closed.
type conn struct {
	net.Conn
	conns *atomic.Int64
	once  sync.Once
}

func (c *conn) Close() error {
	c.once.Do(func() { c.conns.Add(-1) })
	return c.Conn.Close()
}

// Addr is the address in use for one that was asked for, "" while it is not served. It differs where port 0 was asked for.
func (s *Server) Addr(addr string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ep := s.bound[addr]; ep != nil {
		return ep.ln.Addr().String()
	}
	return ""
}

// Shutdown ends all endpoints: answers under way are finished, for a few seconds or until ctx ends. The server cannot be used after that.
func (s *Server) Shutdown(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	all := s.bound
	s.bound = nil
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, ep := range all {
		wg.Go(func() { ep.stop(ctx) })
	}
	wg.Wait()
}
