package server

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterdns/clusterdns/server/wire"
)

const (
	// dohPath is where queries are asked: every client's default (RFC 8484 4.1), and CoreDNS's.
	dohPath = "/dns-query"
	// dohType is the media type of a message (RFC 8484 6).
	dohType = "application/dns-message"
	// dohHeader bounds a request's header. A GET carries its query there: 512 bytes are 683 in base64, and few clients send 1 KiB of their own.
	dohHeader = 8 << 10
	// dohStreams bounds the requests that one HTTP/2 connection has in flight (RFC 9113 5.1.2 asks for at least 100).
	dohStreams = 100
)

// httpSocket serves DNS over HTTPS (RFC 8484), or over plain HTTP for a proxy in front.
type httpSocket struct {
	*endpoint
	conns  connSet
	port   *acceptor
	tls    *tls.Config   // nil for plain HTTP
	served chan struct{} // closed when no more connections are taken
	pool   sync.Pool     // of *Direct
	mu     sync.Mutex    // guards what follows
	// servers are those that have connections; the last one gets the next.
	servers []*httpServer
	closed  bool
}

// httpServer serves the connections that were made while the same time-outs were in force: an http.Server keeps those that it began with.
type httpServer struct {
	*http.Server
	timeouts Timeouts
	open     atomic.Int64 // connections
}

func newHTTPSocket(ep *endpoint, e *engine, port *acceptor, secure bool) *httpSocket {
	h := &httpSocket{endpoint: ep, conns: newConnSet(e), port: port, served: make(chan struct{})}
	h.pool.New = func() any { return newDirect(e, nil) }
	if secure {
		h.tls = &tls.Config{NextProtos: []string{"h2", "http/1.1"}, GetConfigForClient: ep.httpsConfig}
	}
	return h
}

// current gives the server for a new connection, and counts it there; nil if the socket has been closed.
func (h *httpSocket) current() *httpServer {
	t := *h.timeouts.Load()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	n := len(h.servers)
	if n == 0 || h.servers[n-1].timeouts != t {
		h.servers = slices.DeleteFunc(h.servers, func(s *httpServer) bool { return s.open.Load() == 0 })
		h.servers = append(h.servers, h.newServer(t))
		n = len(h.servers)
	}
	s := h.servers[n-1]
	s.open.Add(1)
	return s
}

func (h *httpSocket) newServer(t Timeouts) *httpServer {
	s := &http.Server{
		Handler:           h,
		TLSConfig:         h.tls,
		ReadHeaderTimeout: t.Read,
		ReadTimeout:       t.Read,
		WriteTimeout:      patience + t.Write,
		IdleTimeout:       t.Idle,
		MaxHeaderBytes:    dohHeader,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: dohStreams},
		ErrorLog:          log.New(io.Discard, "", 0), // handshakes that fail are the clients' affair
		Protocols:         new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(h.tls != nil)
	s.Protocols.SetUnencryptedHTTP2(h.tls == nil)
	return &httpServer{Server: s, timeouts: t}
}

// httpsConfig is tlsConfig with the protocols that HTTP needs negotiated.
func (ep *endpoint) httpsConfig(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	c, err := ep.tlsConfig(hello)
	if err != nil {
		return nil, err
	}
	c = c.Clone()
	c.NextProtos = []string{"h2", "http/1.1"}
	return c, nil
}

// counted is a connection that leaves the counts when it is closed, and is in use when it is read.
type counted struct {
	net.Conn
	t      *tracked
	set    *connSet
	server *httpServer
	once   sync.Once
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.t.last.Store(time.Now().UnixNano())
	return n, err
}

func (c *counted) Close() error {
	c.once.Do(func() {
		c.set.remove(c.t)
		c.server.open.Add(-1)
	})
	return c.Conn.Close()
}

// handover is a listener that gives one connection.
type handover struct {
	net.Listener
	conn net.Conn
}

func (l *handover) Accept() (net.Conn, error) {
	c := l.conn
	if l.conn = nil; c == nil {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (*handover) Close() error { return nil }

// serve returns when the socket is drained or closed.
func (h *httpSocket) serve() {
	defer close(h.served)
	for {
		conn, err := h.port.Accept()
		if err != nil {
			if again(err) {
				continue
			}
			return
		}
		if t := (&tracked{conn: conn}); h.conns.add(t) {
			h.take(conn, t)
		}
	}
}

// take has a connection served.
func (h *httpSocket) take(conn net.Conn, t *tracked) {
	s := h.current()
	if s == nil {
		h.conns.remove(t)
		conn.Close()
		return
	}
	conn = &counted{Conn: conn, t: t, set: &h.conns, server: s}
	if h.tls != nil {
		conn = tls.Server(conn, h.tls)
	}
	l := &handover{Listener: h.port, conn: conn}
	_ = s.Serve(l) // until the connection is taken, which has a goroutine of its own then
	if l.conn != nil {
		l.conn.Close() // the server has been closed
	}
}

// drain takes no more connections than have been made, and closes idle ones, and those in use once they are answered.
func (h *httpSocket) drain() {
	h.port.leave()
	go func() {
		<-h.served
		ctx, cancel := context.WithTimeout(context.Background(), patience+tcpWrite)
		defer cancel()
		var all sync.WaitGroup
		h.each(func(s *httpServer) { all.Go(func() { _ = s.Shutdown(ctx) }) })
		all.Wait()
	}()
}

func (h *httpSocket) wait() { h.conns.wg.Wait() }

func (h *httpSocket) closeAll() {
	_ = h.port.Close()
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.each(func(s *httpServer) { _ = s.Server.Close() })
}

func (h *httpSocket) each(do func(*httpServer)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.servers {
		do(s)
	}
}

// ServeHTTP answers one query.
func (h *httpSocket) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	status := h.serveQuery(w, req)
	e := h.conns.engine
	switch status {
	case http.StatusRequestEntityTooLarge:
		e.count(LimitQuerySize)
	case http.StatusRequestTimeout:
		e.count(LimitTCPRead)
	}
	if t := h.table.Load(); t.engine.hooks.HTTPS != nil {
		t.engine.hooks.HTTPS(t.label, status)
	}
}

// serveQuery is ServeHTTP, and says which status it gave.
func (h *httpSocket) serveQuery(w http.ResponseWriter, req *http.Request) int {
	msg, status, err := dohQuery(w, req, h.conns.engine.limits.QuerySize)
	if err != nil {
		http.Error(w, err.Error(), status)
		return status
	}
	client, _ := netip.ParseAddrPort(req.RemoteAddr)
	d := h.pool.Get().(*Direct)
	defer h.pool.Put(d)
	d.table = h.table.Load()
	reply, ok := d.answer(msg, netip.AddrPortFrom(client.Addr().Unmap().WithZone(""), client.Port()), h.addr, HTTPS)
	if !ok {
		http.Error(w, "this message gets no reply", http.StatusBadRequest)
		return http.StatusBadRequest
	}
	w.Header().Set("Content-Type", dohType)
	w.Header().Set("Cache-Control", fmt.Sprintf("max-age=%d", maxAge(reply)))
	_, _ = w.Write(reply) // a client that has gone needs no answer
	return http.StatusOK
}

// dohQuery takes the message, of at most longest bytes, out of a request (RFC 8484 4.1).
func dohQuery(w http.ResponseWriter, req *http.Request, longest int) (msg []byte, status int, err error) {
	if req.URL.Path != dohPath {
		return nil, http.StatusNotFound, errors.New("queries are answered at " + dohPath)
	}
	switch req.Method {
	case http.MethodGet:
		text := req.URL.Query().Get("dns")
		msg, err = base64.RawURLEncoding.DecodeString(text)
		if text == "" || err != nil {
			return nil, http.StatusBadRequest, errors.New("the parameter dns must hold a message in base64url without padding (RFC 8484 4.1)")
		}
		if len(msg) > longest {
			return nil, http.StatusRequestEntityTooLarge, tooLong(longest)
		}
		return msg, 0, nil
	case http.MethodPost:
		if req.Header.Get("Content-Type") != dohType {
			return nil, http.StatusUnsupportedMediaType, errors.New("the content type must be " + dohType)
		}
		msg, err = io.ReadAll(http.MaxBytesReader(w, req.Body, int64(longest)))
		if _, long := errors.AsType[*http.MaxBytesError](err); long {
			return nil, http.StatusRequestEntityTooLarge, tooLong(longest)
		}
		if err != nil {
			return nil, http.StatusRequestTimeout, errors.New("the message cannot be read")
		}
		return msg, 0, nil
	}
	w.Header().Set("Allow", "GET, POST")
	return nil, http.StatusMethodNotAllowed, errors.New("only GET and POST are answered")
}

func tooLong(longest int) error {
	return fmt.Errorf("the message is longer than %d bytes, which no query needs", longest)
}

// maxAge is how long a reply may be kept: the smallest TTL of its records, and for a negative one not longer than its SOA says (RFC 8484 5.1).
func maxAge(reply []byte) uint32 {
	h, err := wire.ParseHeader(reply)
	if err != nil || h.Flags.RCode() != wire.RCodeNoError && h.Flags.RCode() != wire.RCodeNXDomain {
		return 0
	}
	off, err := wire.SkipQuestion(reply, int(h.QDCount))
	if err != nil {
		return 0
	}
	age, any := uint32(0), false
	for range int(h.ANCount) + int(h.NSCount) + int(h.ARCount) {
		rr, err := wire.ReadRR(reply, off)
		if err != nil {
			return 0
		}
		off = rr.End
		if rr.Type == wire.TypeOPT {
			continue
		}
		ttl := rr.TTL
		if rr.Type == wire.TypeSOA && rr.End-rr.Data >= 4 {
			m := reply[rr.End-4 : rr.End]
			ttl = min(ttl, uint32(m[0])<<24|uint32(m[1])<<16|uint32(m[2])<<8|uint32(m[3]))
		}
		if !any || ttl < age {
			age, any = ttl, true
		}
	}
	return age
}
