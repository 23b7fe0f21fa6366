package forward

import (
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
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
	msgs [replyBatch]*message
	hdr  [replyBatch]mmsghdr
	vec  [replyBatch]unix.Iovec
}

// read receives replies until the socket is closed.
func (s *udpSocket) read() {
	conn, ok := s.conn.(*net.UDPConn)
	if !ok {
		s.readOne()
		return
	}
	rc, err := conn.SyscallConn()
	if err == nil {
		r := &replies{s: s}
		for i := range r.msgs {
			r.load(i)
		}
		// One call reads for as long as the socket lives. The callback receives what is there, and saying that it is not done makes the
		// poller wait for the next datagram: there is never a receive that only finds out that nothing has come.
		_ = rc.Read(r.receive)
		for _, m := range r.msgs {
			s.up.group.recycle(m)
		}
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
			r.s.failed(errno)
			errs++
			continue
		}
		done := false
		for i := range int(n) {
			m := r.msgs[i]
			m.b = m.b[:min(int(r.hdr[i].n), cap(m.b))]
			taken, last := r.s.received(m)
			if taken {
				r.load(i)
			}
			done = done || last
		}
		if done {
			return true
		}
		if int(n) < replyBatch {
			return false
		}
	}
	return true
}
