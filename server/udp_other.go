//go:build !linux

package server

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"time"
)

// udpState is what is needed to send a datagram back.
type udpState struct {
	from netip.AddrPort
}

// listenUDP opens one socket. Sharing a port between sockets is Linux's; see Server.Apply.
func listenUDP(addr string) (*net.UDPConn, error) {
	pc, err := net.ListenPacket("udp", addr)
	if err != nil {
		return nil, err
	}
	return pc.(*net.UDPConn), nil
}

// leave does nothing: no other socket has the port.
func (u *udpSocket) leave() {}

// serve is a worker: it receives, answers and sends one datagram at a time until the socket is closed or asked to drain.
func (u *udpSocket) serve() {
	s, turn, in := u.engine.take(), NewTurn(), make([]byte, u.engine.limits.QuerySize)
	for {
		n, from, err := u.conn.ReadFromUDPAddrPort(in)
		if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			continue // such as an ICMP error, or a datagram longer than the buffer on Windows
		}
		q := &s.q
		q.raw, q.table, q.Transport, q.Received, q.Shard = in[:n], u.table.Load(), UDP, time.Now(), u.shard
		s.udp.from = from
		q.Client = netip.AddrPortFrom(from.Addr().Unmap().WithZone(""), from.Port())
		q.Local = u.local
		s.out, s.turn = u, turn
		switch u.engine.process(s) {
		case parked:
			s = u.engine.take()
		case replied:
			u.send(s)
		}
		turn.End()
	}
	u.engine.release(s)
}

// sender sends the replies of a turn.
type sender struct{}

// send sends replies over the sockets that they belong to, and settles them.
func (sender) send(replies []*slab) {
	for _, s := range replies {
		s.out.(*udpSocket).send(s)
		s.engine.settle(s)
	}
}

// late is nothing: see its Linux counterpart.
type late struct{}

// send sends one reply.
func (u *udpSocket) send(s *slab) { _, _ = u.conn.WriteToUDPAddrPort(s.r.buf, s.udp.from) }
