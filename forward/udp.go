package forward

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/clusterdns/clusterdns/server"
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
	errCrowded = fmt.Errorf("%w: too many questions in flight", server.ErrOverload)
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
	raw  syscall.RawConn // of conn; nil if it is none of the system's

	mu      sync.Mutex
	flight  table
	out     *outgoing // what is to be sent at the end of the turn that put it there; nil for nothing
	uses    int       // questions that may still leave by it
	opened  time.Time
	used    time.Time
	retired bool // closed as soon as no question is in flight
	closed  bool
}

// send lets a's question leave by a random socket: the same for all of a turn, so that they leave in one go, and mostly come back so. What comes of it
// comes to a's exchange, but for an error that shows at once.
func (u *udpSockets) send(a *attempt, t *server.Turn) error {
	n := usualSockets
	if m := u.up.group.opts.MaxIdleConns; m > 0 {
		n = min(n, m)
	}
	first := int(t.Seed() % uint32(n))
	for i := range maxSockets {
		k := i
		if i < n {
			k = (first + i) % n
		}
		s, taken, fresh := u.socks[k].Load(), unusable, false
		if s != nil {
			taken = s.add(a)
		}
		if taken == unusable {
			var err error
			if s, fresh, err = u.replace(k, a.sent); err != nil {
				return err
			}
			taken = s.add(a)
		}
		if taken == added {
			u.up.metrics.opened(overUDP, fresh)
			t.AtEnd(s)
			return nil
		}
	}
	return errCrowded
}

// replace opens socket k if there is none that may still be used.
func (u *udpSockets) replace(k int, now time.Time) (s *udpSocket, fresh bool, err error) {
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
	s.init()
	if u.up.passing() {
		s.uses = 1
	}
	u.socks[k].Store(s)
	go s.read()
	return s, true, nil
}

// usable says whether another question may leave by s.
func (s *udpSocket) usable(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fits(now)
}

// fits is usable under the lock.
func (s *udpSocket) fits(now time.Time) bool {
	o := &s.up.group.opts
	return !s.retired && s.uses > 0 && now.Sub(s.used) <= o.Expire && (o.MaxAge == 0 || now.Sub(s.opened) <= o.MaxAge)
}

// room is what a socket says of one more question.
type room uint8

const (
	added    room = iota
	full          // for now
	unusable      // for good
)

// add registers a and makes its question ready to be sent.
func (s *udpSocket) add(a *attempt) room {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.fits(a.sent) {
		return unusable
	}
	id, ok := s.flight.add(a)
	if !ok {
		return full
	}
	a.id, a.at = id, s
	s.used = a.sent
	if s.uses--; s.uses == 0 {
		s.retired = true
	}
	if s.out == nil {
		s.out = s.up.group.outgoing()
	}
	s.out.add(&a.x.question, id, a.plain)
	return added
}

// EndTurn implements server.Ender: it sends the questions that have gathered.
func (s *udpSocket) EndTurn(t *server.Turn) {
	s.mu.Lock()
	out := s.out
	s.out = nil
	s.mu.Unlock()
	if out == nil {
		return // another turn has sent them
	}
	s.write(out, t)
	out.buf, out.ends, out.ids = out.buf[:0], out.ends[:0], out.ids[:0]
	s.up.group.outgoings.Put(out)
}

// outgoing are questions that are to leave by one socket.
type outgoing struct {
	buf  []byte
	ends []int // of each in buf
	ids  []uint16
	vector
}

func (g *group) outgoing() *outgoing {
	if o, ok := g.outgoings.Get().(*outgoing); ok {
		return o
	}
	return new(outgoing)
}

func (o *outgoing) add(q *question, id uint16, plain bool) {
	o.buf = q.append(o.buf, id, plain)
	o.ends = append(o.ends, len(o.buf))
	o.ids = append(o.ids, id)
}

// message is the question i.
func (o *outgoing) message(i int) []byte {
	if i == 0 {
		return o.buf[:o.ends[0]]
	}
	return o.buf[o.ends[i-1]:o.ends[i]]
}

// writeEach is write where datagrams cannot be sent in batches. The error of a datagram before it, which the system reports now, is not
// its own: it is sent again.
func (s *udpSocket) writeEach(o *outgoing, t *server.Turn) {
	for i := range o.ids {
		_, err := s.conn.Write(o.message(i))
		if errors.Is(err, syscall.ECONNREFUSED) {
			_, err = s.conn.Write(o.message(i))
		}
		if err != nil {
			s.refused(o.ids[i], err, t)
		}
	}
}

// refused ends the question with an id that could not be sent, unless a reply or failure has come meanwhile.
func (s *udpSocket) refused(id uint16, err error, t *server.Turn) {
	s.mu.Lock()
	var a *attempt
	if sl := s.flight.find(id); sl != nil && sl.at != nil {
		a = sl.at
		s.flight.remove(a)
	}
	s.closeIf(s.spent())
	s.mu.Unlock()
	if a != nil {
		a.finish(nil, foreign, err, t)
	}
}

// giveUp takes a out and says whether it still was there.
func (s *udpSocket) giveUp(a *attempt) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.flight.remove(a)
	s.closeIf(s.spent())
	return was
}

// closeIf closes the connection. That waits for whoever reads from it, who may be the caller, so nobody waits for that.
func (s *udpSocket) closeIf(spent bool) {
	if spent {
		go s.conn.Close()
	}
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
	defer s.mu.Unlock()
	s.retired = true
	s.closeIf(s.spent())
}

// received looks at a datagram and says whether it was handed to the one who waits for it, and whether the socket is to be closed.
func (s *udpSocket) received(m *message, t *server.Turn) (taken, done bool) {
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
	done = s.spent()
	s.mu.Unlock()
	a.finish(m, f, nil, t)
	return true, done
}

// failed ends all that is in flight on s: the system told that the upstream's port is closed or its address out of reach. It does not
// say for which datagram, but they all went there.
func (s *udpSocket) failed(err error, t *server.Turn) {
	s.mu.Lock()
	all := s.flight.all()
	s.closeIf(s.spent())
	s.mu.Unlock()
	for _, a := range all {
		a.finish(nil, foreign, err, t)
	}
}

// readOne is the reader where datagrams cannot be received in batches.
func (s *udpSocket) readOne() {
	m, t := s.up.group.buffer(), server.NewTurn()
	for {
		n, err := s.conn.Read(m.b[:cap(m.b)])
		if err != nil {
			s.failed(err, t)
			t.End()
			if errors.Is(err, syscall.ECONNREFUSED) {
				continue
			}
			break
		}
		m.b = m.b[:n]
		taken, done := s.received(m, t)
		t.End()
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
	s.mu.Unlock()
	s.failed(errClosed, nil)
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
