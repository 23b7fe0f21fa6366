package server

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// sender sends the replies of a turn.
type sender struct{ v *vector }

// vector is what sendmmsg sends; the callback is made once, since a closure for each call would allocate.
type vector struct {
	hdrs [batchSize]mmsghdr
	iovs [batchSize]unix.Iovec
	transmit
	callback func(fd uintptr) bool
}

// send sends replies over the sockets that they belong to: mostly one.
func (o *sender) send(replies []*slab) {
	if len(replies) == 0 {
		return
	}
	if o.v == nil {
		o.v = new(vector)
		o.v.callback = o.v.do
	}
	var on *udpSocket
	k := 0
	for _, s := range replies {
		u := s.out.(*udpSocket)
		if k > 0 && (u != on || k == batchSize) {
			o.v.flush(on, k)
			k = 0
		}
		on = u
		s.put(&o.v.hdrs[k].hdr, &o.v.iovs[k])
		k++
	}
	o.v.flush(on, k)
}

// flush sends the first n by u's socket. An error means that the socket is closed.
func (v *vector) flush(u *udpSocket, n int) {
	v.left = v.hdrs[:n]
	_ = u.raw.Write(v.callback)
}

// put makes a vector's element of the reply of s.
func (s *slab) put(h *unix.Msghdr, v *unix.Iovec) {
	v.Base = &s.r.buf[0]
	v.SetLen(len(s.r.buf))
	h.Iov = v
	h.SetIovlen(1)
	h.Name, h.Namelen = &s.udp.name[0], s.udp.nameLen
	h.Control = nil
	if s.udp.oobLen > 0 {
		h.Control = &s.udp.oob[0]
	}
	h.SetControllen(s.udp.oobLen)
}

// transmit are datagrams that are to be sent.
type transmit struct{ left []mmsghdr }

// do is the callback of RawConn.Write: it says false when the socket is full.
func (t *transmit) do(fd uintptr) bool {
	for len(t.left) > 0 {
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&t.left[0])), uintptr(len(t.left)), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EAGAIN:
			return false
		case errno == unix.EINTR:
		case errno != 0:
			t.left = t.left[1:] // the first one cannot be sent: nobody can be told but its client, who will ask again
		default:
			t.left = t.left[n:]
		}
	}
	return true
}
