package server

import (
	"net"
	"sync"
)

// drops adds up the datagrams that the kernel threw away because a socket's receive buffer was full: queries that came faster than they were
// answered, which nothing else here ever sees. The kernel counts; it is asked at a scrape, so that counting costs a query nothing.
type drops struct {
	mu   sync.Mutex
	gone uint64                  // of sockets that are closed
	open map[*net.UDPConn]uint64 // what was seen last
}

// watch counts a socket until the returned function is called, which should be before it is closed.
func (d *drops) watch(c *net.UDPConn) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == nil {
		d.open = map[*net.UDPConn]uint64{}
	}
	d.open[c] = 0
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.look(c)
		d.gone += d.open[c]
		delete(d.open, c)
	}
}

// look asks the kernel. A socket that was closed meanwhile keeps what was seen last.
func (d *drops) look(c *net.UDPConn) {
	if n, ok := socketDrops(c); ok {
		d.open[c] = n
	}
}

func (d *drops) sum() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.gone
	for c := range d.open {
		d.look(c)
		n += d.open[c]
	}
	return n
}

// SocketDrops is how many datagrams the kernel has thrown away since the start because they came faster than they were answered. It is
// 0 outside Linux.
func (s *Server) SocketDrops() uint64 { return s.engine.drops.sum() }
