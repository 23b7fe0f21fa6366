package forward

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/clusterdns/clusterdns/server/wire"
)

const (
	// usualSockets is how many sockets of an upstream the next question may leave by. Each has a random port of the system's choice, so that
	// a forger has to guess port and id. More would not help much, since a forger who tries all ports hits any of them, and each
	// costs a wake-up of its own under load.
	usualSockets = 8
	// maxSockets bounds those of one upstream when many questions are in flight.
	maxSockets = 32
	// usesLeast and usesMost bound how many questions leave by one port before it is given up for another: often enough that a port found out
	// is soon of no use, seldom enough that opening sockets costs nothing to speak of.
	usesLeast, usesMost = 1024, 2048
)

var (
	errCrowded = errors.New("too many questions in flight")
	errClosed  = errors.New("connection closed")
)

// udpSockets is the rotating set of connected sockets of one upstream. Being connected, they take datagrams from its address only.
type udpSockets struct {
	up *upstream

	mu    sync.Mutex // held while a socket is replaced
	socks [maxSockets]atomic.Pointer[udpSocket]
}

// udpSocket is one of them. A goroutine of its own reads it until it is closed.
type udpSocket struct {
	up   *upstream
	conn net.Conn

	mu      sync.Mutex
	flight  table
	uses    int // questions that may still leave by it
	opened  time.Time
	used    time.Time
	retired bool // closed as soon as no question is in flight
	closed  bool
}

// send lets a's question leave by a random socket. Its reply or failure comes to a's exchange.
func (u *udpSockets) send(a *attempt) error {
	n := usualSockets
	if m := u.up.group.opts.MaxIdleConns; m > 0 {
		n = min(n, m)
	}
	first := rand.IntN(n)
	for i := range maxSockets {
		k := i
		if i < n {
			k = (first + i) % n
		}
		s, fresh, err := u.socket(k, a.sent)
		if err != nil {
			return err
		}
		if id, ok := s.add(a); ok {
			u.up.metrics.opened(overUDP, fresh)
			return s.write(a, id)
		}
	}
	return errCrowded
}

// socket gives socket k, which is opened when there is none that may still be used.
func (u *udpSockets) socket(k int, now time.Time) (s *udpSocket, fresh bool, err error) {
	if s = u.socks[k].Load(); s != nil && s.usable(now) {
		return s, false, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if s = u.socks[k].Load(); s != nil {
		if s.usable(now) {
			return s, false, nil
		}
		s.retire()
	}
	conn, err := u.up.dial(context.Background(), "udp") // connecting a datagram socket waits for nothing
	if err != nil {
		u.socks[k].Store(nil)
		return nil, true, err
	}
	s = &udpSocket{up: u.up, conn: conn, opened: now, used: now, uses: usesLeast + rand.IntN(usesMost-usesLeast)}
	if u.up.passing() {
		s.uses = 1
	}
	u.socks[k].Store(s)
	go s.read()
	return s, true, nil
}

// usable says whether another question may leave by s.
func (s *udpSocket) usable(now time.Time) bool {
	o := &s.up.group.opts
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.retired && s.uses > 0 && now.Sub(s.used) <= o.Expire && (o.MaxAge == 0 || now.Sub(s.opened) <= o.MaxAge)
}

// add registers a, or says false when s is full or was given up in the meantime.
func (s *udpSocket) add(a *attempt) (uint16, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired || s.uses == 0 {
		return 0, false
	}
	id, ok := s.flight.add(a)
	if ok {
		a.id, a.at = id, s
		s.uses--
		s.used = a.sent
		if s.uses == 0 {
			s.retired = true
		}
	}
	return id, ok
}

// write sends the question of a. The error of a datagram before it, which the system reports now, is not its own: it is sent again.
func (s *udpSocket) write(a *attempt, id uint16) error {
	x := a.x
	x.out = x.question.append(x.out[:0], id, a.plain)
	_, err := s.conn.Write(x.out)
	if errors.Is(err, syscall.ECONNREFUSED) {
		_, err = s.conn.Write(x.out)
	}
	if err == nil || !s.giveUp(a) {
		return nil // a reply or failure is on its way already
	}
	return err
}

// giveUp takes a out and says whether it still was there.
func (s *udpSocket) giveUp(a *attempt) bool {
	s.mu.Lock()
	was := s.flight.remove(a)
	idle := s.spent()
	s.mu.Unlock()
	if idle {
		s.conn.Close()
	}
	return was
}

// spent says, once, that s is to be closed. The caller holds the lock.
func (s *udpSocket) spent() bool {
	if !s.retired || s.closed || s.flight.n > 0 {
		return false
	}
	s.closed = true
	return true
}

// retire lets no more questions leave by s and closes it once none is in flight.
func (s *udpSocket) retire() {
	s.mu.Lock()
	s.retired = true
	idle := s.spent()
	s.mu.Unlock()
	if idle {
		s.conn.Close()
	}
}

// received looks at a datagram and says whether it was handed to the one who waits for it, and whether the socket is to be closed.
func (s *udpSocket) received(m *message) (taken, done bool) {
	b := m.b
	if len(b) < wire.HeaderLen || b[2]&0xF8 != 0x80 { // QR set, opcode QUERY
		s.up.metrics.ignored[malformed].Inc()
		return false, false
	}
	s.mu.Lock()
	sl := s.flight.find(binary.BigEndian.Uint16(b))
	if sl == nil {
		s.mu.Unlock()
		s.up.metrics.ignored[wrongID].Inc()
		return false, false
	}
	a := sl.at
	if a == nil {
		now := time.Now()
		took := now.Sub(sl.sent)
		sl.known = false
		s.mu.Unlock()
		s.up.metrics.ignored[late].Inc()
		s.up.heard(overUDP, took, now)
		return false, false
	}
	f := a.x.question.compare(b, s.up.group.opts.RandomCase)
	if f == foreign {
		s.mu.Unlock()
		s.up.metrics.ignored[wrongQuestion].Inc()
		return false, false
	}
	sl.at, sl.known = nil, false
	s.flight.n--
	a.finish(m, f, nil)
	done = s.spent()
	s.mu.Unlock()
	return true, done
}

// failed ends all that is in flight on s: the system told that the upstream's port is closed or its address out of reach. It does not
// say for which datagram, but they all went there.
func (s *udpSocket) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flight.each(func(a *attempt) { a.finish(nil, foreign, err) })
}

// readOne is the reader where datagrams cannot be received in batches.
func (s *udpSocket) readOne() {
	m := s.up.group.buffer()
	for {
		n, err := s.conn.Read(m.b[:cap(m.b)])
		if err != nil {
			s.failed(err)
			if errors.Is(err, syscall.ECONNREFUSED) {
				continue
			}
			break
		}
		m.b = m.b[:n]
		taken, done := s.received(m)
		if taken {
			m = s.up.group.buffer()
		}
		if done {
			break
		}
	}
	s.up.group.recycle(m)
	s.stopped()
}

// stopped is the end of the reader.
func (s *udpSocket) stopped() {
	s.mu.Lock()
	s.retired, s.closed = true, true
	s.flight.each(func(a *attempt) { a.finish(nil, foreign, errClosed) })
	s.mu.Unlock()
	s.conn.Close()
}

// sweep retires the sockets that have not been used for long, or, when the configuration is replaced, all.
func (u *udpSockets) sweep(now time.Time, all bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for k := range u.socks {
		if s := u.socks[k].Load(); s != nil && (all || !s.usable(now)) {
			u.socks[k].Store(nil)
			s.retire()
		}
	}
}
