package forward

import (
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/clusterdns/clusterdns/server"
)

// replyBatch is how many datagrams one system call receives at the most. Under load a few wait per wake-up; each place costs a buffer.
const replyBatch = 8

// maxErrors is how many errors in a row a socket may report, one for each datagram that was refused, before it is taken to be broken.
const maxErrors = 2 * tableSize

// mmsghdr is struct mmsghdr of recvmmsg(2); Go pads it as C does.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
}

// replies is what one socket's reader receives into.
type replies struct {
	s    *udpSocket
	turn *server.Turn
	msgs [replyBatch]*message
	hdr  [replyBatch]mmsghdr
	vec  [replyBatch]unix.Iovec
}

// init looks whether the connection is one of the system's.
func (s *udpSocket) init() {
	if conn, ok := s.conn.(*net.UDPConn); ok {
		if rc, err := conn.SyscallConn(); err == nil {
			s.raw = rc
		}
	}
}

// read receives replies until the socket is closed.
func (s *udpSocket) read() {
	if s.raw == nil {
		s.readOne()
		return
	}
	r := &replies{s: s, turn: server.NewTurn()}
	for i := range r.msgs {
		r.load(i)
	}
	// One call reads for as long as the socket lives. The callback receives what is there, and saying that it is not done makes the
	// poller wait for the next datagram: there is never a receive that only finds out that nothing has come.
	_ = s.raw.Read(r.receive)
	for _, m := range r.msgs {
		s.up.group.recycle(m)
	}
	s.stopped()
}

func (r *replies) load(i int) {
	m := r.s.up.group.buffer()
	r.msgs[i] = m
	b := m.b[:cap(m.b)]
	r.vec[i].Base = &b[0]
	r.vec[i].SetLen(len(b))
	r.hdr[i].hdr.Iov = &r.vec[i]
	r.hdr[i].hdr.SetIovlen(1)
}

// receive is the callback of RawConn.Read: it says true when the socket is done with.
func (r *replies) receive(fd uintptr) bool {
	for errs := 0; errs < maxErrors; {
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&r.hdr)), replyBatch, unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
		case unix.EAGAIN:
			return false
		case unix.EINTR:
			continue
		case unix.EBADF, unix.ENOTSOCK, unix.EINVAL:
			return true
		default: // an ICMP error that came for one of our datagrams
			r.s.failed(errno, r.turn)
			r.turn.End()
			errs++
			continue
		}
		if r.handOut(int(n)) {
			return true
		}
		if int(n) < replyBatch {
			return false
		}
	}
	return true
}

// handOut gives the first n datagrams to those who wait for them, and says whether the socket is done with.
func (r *replies) handOut(n int) (done bool) {
	for i := range n {
		m := r.msgs[i]
		m.b = m.b[:min(int(r.hdr[i].n), cap(m.b))]
		taken, last := r.s.received(m, r.turn)
		if taken {
			r.load(i)
		}
		done = done || last
	}
	r.turn.End()
	return done
}

// sendBatch is how many datagrams one system call sends at the most.
const sendBatch = 32

// vector is what sendmmsg sends. The callback is made once, since a closure for each call would allocate.
type vector struct {
	hdrs     [sendBatch]mmsghdr
	iovs     [sendBatch]unix.Iovec
	left     []mmsghdr
	errno    syscall.Errno
	callback func(fd uintptr) bool
}

// write sends what is in o.
func (s *udpSocket) write(o *outgoing, t *server.Turn) {
	if s.raw == nil {
		s.writeEach(o, t)
		return
	}
	if o.callback == nil {
		o.callback = o.vector.send
	}
	for first := 0; first < len(o.ids); {
		n := min(len(o.ids)-first, sendBatch)
		for i := range n {
			b := o.message(first + i)
			o.iovs[i].Base = &b[0]
			o.iovs[i].SetLen(len(b))
			o.hdrs[i].hdr.Iov = &o.iovs[i]
			o.hdrs[i].hdr.SetIovlen(1)
		}
		o.left, o.errno = o.hdrs[:n], 0
		err := s.raw.Write(o.callback)
		if err == nil && o.errno != 0 {
			err = o.errno
		}
		first += n - len(o.left)
		if err != nil {
			s.refused(o.ids[first], err, t)
			first++
		}
	}
}

// send is the callback of RawConn.Write: it says false when the socket is full. The error of a datagram before, which the system reports now, is
// not that of the next one: it is sent again.
func (v *vector) send(fd uintptr) bool {
	for again := true; len(v.left) > 0; {
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&v.left[0])), uintptr(len(v.left)), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EAGAIN:
			return false
		case errno == unix.EINTR:
		case errno == unix.ECONNREFUSED && again:
			again = false
		case errno != 0:
			v.errno = errno
			return true
		default:
			v.left = v.left[n:]
			again = true
		}
	}
	return true
}
