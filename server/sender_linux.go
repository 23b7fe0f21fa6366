package server

import (
	"slices"
	"sync"
	"sync/atomic"
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

// send sends replies over the sockets that they belong to, mostly one, and settles them. It does not wait for a socket that is full.
func (o *sender) send(replies []*slab) {
	if len(replies) == 0 {
		return
	}
	if o.v == nil {
		o.v = new(vector)
		o.v.callback = o.v.once
	}
	for len(replies) > 0 {
		u, n := replies[0].out.(*udpSocket), 1
		for n < len(replies) && n < batchSize && replies[n].out == responder(u) {
			n++
		}
		left := n
		if !u.full.Load() {
			left = o.v.flush(u, replies[:n])
		}
		for _, s := range replies[:n-left] {
			s.engine.settle(s)
		}
		if left > 0 {
			u.sendLater(replies[n-left : n])
		}
		replies = replies[n:]
	}
}

// flush sends replies, no more than a batch, by u's socket, and says how many at their end are left. An error means that the socket is closed.
func (v *vector) flush(u *udpSocket, replies []*slab) (left int) {
	for i, s := range replies {
		s.put(&v.hdrs[i].hdr, &v.iovs[i])
	}
	v.left, v.full = v.hdrs[:len(replies)], &u.full
	if u.raw.Write(v.callback) != nil {
		return 0
	}
	return len(v.left)
}

// maxLate bounds the replies that wait for room in one socket; those over it are lost, as they are in a network.
const maxLate = 512

// late are the replies of parked queries that found their socket full. What cannot be delivered fills one: a neighbour on the link that is gone has its
// datagrams kept for seconds. Who reads from upstreams must not wait for that, so a goroutine of the crew does.
type late struct {
	mu    sync.Mutex
	slabs []*slab
	busy  bool
}

// sendLater takes over replies that are to be sent when there is room.
func (u *udpSocket) sendLater(replies []*slab) {
	l := &u.late
	l.mu.Lock()
	n := min(len(replies), maxLate-len(l.slabs))
	l.slabs = append(l.slabs, replies[:n]...)
	begin := !l.busy && n > 0
	l.busy = l.busy || begin
	l.mu.Unlock()
	for _, s := range replies[n:] {
		u.engine.count(LimitUDPReplies)
		u.engine.settle(s)
	}
	if begin {
		u.engine.crew.do(u)
	}
}

// do implements task: it sends the replies that wait for room until there are no more.
func (u *udpSocket) do() {
	v := new(vector)
	v.callback = v.do
	var batch []*slab
	for {
		u.late.mu.Lock()
		n := min(len(u.late.slabs), batchSize)
		batch = append(batch[:0], u.late.slabs[:n]...)
		u.late.slabs = slices.Delete(u.late.slabs, 0, n)
		u.late.busy = n > 0
		u.late.mu.Unlock()
		if n == 0 {
			return
		}
		v.flush(u, batch)
		u.full.Store(false)
		for _, s := range batch {
			u.engine.settle(s)
		}
	}
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
type transmit struct {
	left []mmsghdr
	full *atomic.Bool // set while somebody waits for room in the socket
}

// once is the callback of RawConn.Write for those who cannot wait: what is left when the socket is full stays.
func (t *transmit) once(fd uintptr) bool {
	t.do(fd)
	return true
}

// do is the callback of RawConn.Write: it says false when the socket is full.
func (t *transmit) do(fd uintptr) bool {
	for len(t.left) > 0 {
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&t.left[0])), uintptr(len(t.left)), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EAGAIN:
			t.full.Store(true)
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
