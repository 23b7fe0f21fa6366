package server

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// batchSize is how many datagrams one system call receives or sends at the most. What it saves is gone well before: at 32 the call itself
// is a thirtieth of a datagram's share.
const batchSize = 32

// udpState is what the kernel needs to send a datagram back: the client's address, and on wildcard sockets the address it had asked.
type udpState struct {
	name    [unix.SizeofSockaddrInet6]byte
	nameLen uint32
	oob     [64]byte
	oobLen  int
}

// mmsghdr is struct mmsghdr of recvmmsg(2); Go pads it as C does.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
}

// batch is one worker's vectors for recvmmsg and sendmmsg.
type batch struct {
	slabs [batchSize]*slab
	bufs  [batchSize][]byte
	in    [batchSize]mmsghdr
	inV   [batchSize]unix.Iovec
	out   [batchSize]mmsghdr
	outV  [batchSize]unix.Iovec
	// The results of the system calls, which are made in callbacks that are built once: a closure per call would allocate.
	n     int
	errno syscall.Errno
	send  transmit
	turn  *Turn
}

// receiveBuffer is what queries may take that wait in a socket, for moments without CPU: a throttled Pod, a busy node. The usual 208 KiB are full with about
// 280 queries, 28 ms at 10,000 a second; this is full with ten times as many, and none has waited so long that its client has given up. The kernel
// gives no more than net.core.rmem_max (socket(7)), and takes memory only for what does wait.
const receiveBuffer = 1 << 20

// listenUDP opens one socket, which shares its port with others of this process (socket(7), SO_REUSEPORT).
func listenUDP(addr string) (*net.UDPConn, error) {
	lc := net.ListenConfig{Control: SharePort}
	pc, err := lc.ListenPacket(context.Background(), "udp", addr)
	if err != nil {
		return nil, err
	}
	conn := pc.(*net.UDPConn)
	_ = conn.SetReadBuffer(receiveBuffer) // where it cannot be had, it works all the same
	if ap := conn.LocalAddr().(*net.UDPAddr).AddrPort(); ap.Addr().IsUnspecified() {
		if err := packetInfo(conn, ap.Addr()); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// SharePort is a net.ListenConfig.Control: other sockets that were made with it, of processes of the same user, may have the same port.
func SharePort(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }); cerr != nil {
		return cerr
	}
	return err
}

// leave takes the socket out of those that share its port, and what has arrived can still be read. Closing it loses that, and staying
// gets it more for as long as anything is waited for. A connected socket takes datagrams of its peer alone, and the kernel passes it over where a
// port is shared (udp(7), reuseport_select_sock); this one's peer is itself. Replies go to any address as before.
func (u *udpSocket) leave() {
	rc, err := u.conn.SyscallConn()
	if err != nil {
		return
	}
	_ = rc.Control(func(fd uintptr) {
		if own, err := unix.Getsockname(int(fd)); err == nil {
			_ = unix.Connect(int(fd), own) // where this cannot be, the socket stays until it is closed
		}
	})
}

// packetInfo makes the kernel tell which address a datagram was sent to, so that the reply leaves from it (ip(7), ipv6(7)).
func packetInfo(conn *net.UDPConn, bound netip.Addr) error {
	rc, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var v4, v6 error
	if err := rc.Control(func(fd uintptr) {
		v4 = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		v6 = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	}); err != nil {
		return err
	}
	if bound.Is4() {
		return v4
	}
	return v6 // a dual-stack socket tells of IPv4 by IPv4-mapped addresses
}

// serve is a worker: it receives, answers and sends in batches until the socket is closed or asked to drain.
func (u *udpSocket) serve() {
	rc := u.raw
	defer u.engine.drops.watch(u.conn)()
	b := &batch{turn: NewTurn()}
	for i := range b.slabs {
		b.bufs[i] = make([]byte, u.engine.limits.QuerySize)
		b.inV[i].Base = &b.bufs[i][0]
		b.inV[i].SetLen(len(b.bufs[i]))
		b.load(i, u.engine.take())
	}
	recv, send := b.receive, b.send.do
	b.send.full = &u.full
	for {
		if err := rc.Read(recv); err != nil {
			break
		}
		if b.errno == 0 {
			u.answer(b, rc, send)
		}
	}
	// What had arrived before the socket was asked to drain is still answered. A closed socket says so at once.
	for rc.Control(func(fd uintptr) { b.receive(fd) }) == nil && b.errno == 0 {
		u.answer(b, rc, send)
	}
	for _, s := range b.slabs {
		u.engine.release(s)
	}
}

// load puts a slab into place i of the receive vector.
func (b *batch) load(i int, s *slab) {
	b.slabs[i] = s
	h := &b.in[i].hdr
	h.Iov = &b.inV[i]
	h.SetIovlen(1)
	h.Name = &s.udp.name[0]
	h.Control = &s.udp.oob[0]
}

// receive is the callback of RawConn.Read. It says false when there is nothing yet.
func (b *batch) receive(fd uintptr) bool {
	for i := range b.in {
		h := &b.in[i].hdr
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(len(b.slabs[i].udp.oob))
		h.Flags = 0
	}
	n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&b.in)), batchSize, unix.MSG_DONTWAIT, 0, 0)
	b.n, b.errno = int(n), errno
	return errno != unix.EAGAIN && errno != unix.EINTR
}

// answer processes the received datagrams and sends the replies.
func (u *udpSocket) answer(b *batch, rc syscall.RawConn, send func(uintptr) bool) {
	now := time.Now()
	t := u.table.Load()
	k := 0
	for i := range b.n {
		s := b.slabs[i]
		h := &b.in[i]
		if h.hdr.Flags&unix.MSG_TRUNC != 0 {
			u.engine.count(LimitQuerySize)
			continue
		}
		s.udp.nameLen, s.udp.oobLen = h.hdr.Namelen, int(h.hdr.Controllen)
		q := &s.q
		q.raw, q.table, q.Transport, q.Received, q.Shard = b.bufs[i][:h.n], t, UDP, now, u.shard
		q.Client = sockaddr(s.udp.name[:])
		q.Local = u.local
		s.local(q)
		s.out, s.turn = u, b.turn
		switch u.engine.process(s) {
		case parked:
			b.load(i, u.engine.take())
		case replied:
			s.put(&b.out[k].hdr, &b.outV[k])
			k++
		}
	}
	if k > 0 {
		b.send.left = b.out[:k]
		// An error here means that the socket is closed; the reader sees it too.
		_ = rc.Write(send)
		if u.full.Load() {
			u.full.Store(false)
		}
	}
	b.turn.End()
	if u.engine.limits.Poison {
		for i := range b.n {
			poison(b.bufs[i])
		}
	}
}

// send sends one reply.
func (u *udpSocket) send(s *slab) {
	if s.udp.oobLen == 0 {
		_, _ = u.conn.WriteToUDPAddrPort(s.r.buf, u.dest(s))
		return
	}
	_, _, _ = u.conn.WriteMsgUDPAddrPort(s.r.buf, s.udp.oob[:s.udp.oobLen], u.dest(s))
}

// dest is the client's address as the socket's family wants it, with its zone.
func (u *udpSocket) dest(s *slab) netip.AddrPort {
	c := s.q.Client
	if binary.NativeEndian.Uint16(s.udp.name[:]) == unix.AF_INET6 {
		if scope := binary.NativeEndian.Uint32(s.udp.name[24:]); scope != 0 && c.Addr().Is6() {
			if ifi, err := net.InterfaceByIndex(int(scope)); err == nil {
				c = netip.AddrPortFrom(c.Addr().WithZone(ifi.Name), c.Port())
			}
		}
	}
	return c
}

// sockaddr reads a struct sockaddr_in or sockaddr_in6.
func sockaddr(b []byte) netip.AddrPort {
	port := binary.BigEndian.Uint16(b[2:])
	if binary.NativeEndian.Uint16(b) == unix.AF_INET {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])).Unmap(), port)
}

// local reads the address that the client had asked from the control message, and makes of that the one for the reply: the same
// address, and no interface but for link-local addresses, so that the reply takes the usual route.
func (s *slab) local(q *Query) {
	oob := s.udp.oob[:s.udp.oobLen]
	if len(oob) < unix.SizeofCmsghdr {
		s.udp.oobLen = 0
		return
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&oob[0]))
	data := oob[unix.CmsgLen(0):]
	switch {
	case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
		info := (*unix.Inet4Pktinfo)(unsafe.Pointer(&data[0]))
		q.Local = netip.AddrPortFrom(netip.AddrFrom4(info.Addr), q.Local.Port())
		info.Spec_dst, info.Ifindex = info.Addr, 0
		s.udp.oobLen = unix.CmsgSpace(unix.SizeofInet4Pktinfo)
	case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
		info := (*unix.Inet6Pktinfo)(unsafe.Pointer(&data[0]))
		a := netip.AddrFrom16(info.Addr).Unmap()
		q.Local = netip.AddrPortFrom(a, q.Local.Port())
		if !a.IsLinkLocalUnicast() || a.Is4() {
			info.Ifindex = 0
		}
		s.udp.oobLen = unix.CmsgSpace(unix.SizeofInet6Pktinfo)
	default:
		s.udp.oobLen = 0
	}
}
