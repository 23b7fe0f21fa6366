package kubetest

import (
	"net"
	"sync"
	"testing"
)

// Proxy forwards TCP connections, and can stop doing so without anybody being told: what a cable does that is pulled.
type Proxy struct {
	ln net.Listener
	to string

	mu     sync.Mutex
	frozen chan struct{} // closed while bytes flow
	conns  map[net.Conn]struct{}
	total  int
}

// StartProxy starts a proxy in front of an address. It ends with the test.
func StartProxy(tb testing.TB, to string) *Proxy {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{ln: ln, to: to, frozen: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	close(p.frozen)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(c) })
		}
	})
	tb.Cleanup(func() {
		_ = ln.Close()
		p.Thaw()
		p.Cut()
		wg.Wait()
	})
	return p
}

// Addr is the proxy's host and port.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Freeze keeps all bytes from now on, of connections old and new.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = make(chan struct{})
}

// Thaw lets bytes flow again.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.frozen:
	default:
		close(p.frozen)
	}
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Accepted is the number of connections so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

func (p *Proxy) serve(c net.Conn) {
	s, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = c.Close()
		return
	}
	p.mu.Lock()
	p.conns[c], p.conns[s] = struct{}{}, struct{}{}
	p.total++
	p.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { p.copy(s, c) })
	wg.Go(func() { p.copy(c, s) })
	wg.Wait()
	p.mu.Lock()
	delete(p.conns, c)
	delete(p.conns, s)
	p.mu.Unlock()
}

func (p *Proxy) copy(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		open := p.frozen
		p.mu.Unlock()
		<-open
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
