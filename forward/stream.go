package forward

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

const (
	// maxStreams bounds the connections to one upstream. One carries all until tableFull questions are in flight on it.
	maxStreams = 8
	// dialTimeout bounds the handshakes of TCP and TLS together: whoever waits for them has given up after that.
	dialTimeout = 3 * time.Second
	// writeTimeout bounds one write: an upstream that reads nothing for so long will not reply either.
	writeTimeout = 2 * time.Second
	// maxRedials is how often a question may move to a new connection. One that closes every time is no connection.
	maxRedials = 3
	// stalled is how long nothing may come by a connection that questions were sent by, once one of them was given up, before the
	// connection is taken for dead: a peer that vanished does not close it.
	stalled = time.Second
	// readAhead is what one read of a connection may bring: replies that came together cost one system call.
	readAhead = 4096
)

// streams are the connections to one upstream, over TCP or TLS, each for many questions at a time, answered in any order (RFC 7766 6.2.1,
// RFC 7858 3.3). Its lock guards all of them.
type streams struct {
	up *upstream

	mu    sync.Mutex
	conns []*stream
}

// stream is one connection. One goroutine dials and then reads, another writes.
type stream struct {
	set    *streams
	over   proto
	conn   net.Conn // nil while dialing
	flight table
	out    []byte        // framed questions to be written
	wake   chan struct{} // has room for one: there is something in out
	done   chan struct{} // closed when the reader ends

	opened  time.Time
	used    time.Time // when the last question was sent
	asked   time.Time // when the first question was sent since the last reply; zero if none was
	retired bool
	closing bool
}

// send puts a's question on a connection, which is opened if need be. Its reply or failure comes to a's exchange.
func (t *streams) send(a *attempt) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.at = t
	return t.put(a, a.sent)
}

// put is send under the lock.
func (t *streams) put(a *attempt, now time.Time) error {
	s := t.pick(a.over, now)
	if s == nil {
		return errCrowded
	}
	id, ok := s.flight.add(a)
	if !ok {
		return errCrowded
	}
	a.id, a.stream = id, s
	s.used = now
	if s.asked.IsZero() {
		s.asked = now
	}
	n := len(s.out)
	s.out = append(s.out, 0, 0)
	if a.over == overTLS && !a.plain {
		s.out = a.x.question.appendPadded(s.out, id)
	} else {
		s.out = a.x.question.append(s.out, id, a.plain)
	}
	binary.BigEndian.PutUint16(s.out[n:], uint16(len(s.out)-n-2))
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// pick gives a connection with room, a new one if there is none.
func (t *streams) pick(over proto, now time.Time) *stream {
	o := &t.up.group.opts
	for _, s := range t.conns {
		if s.over != over || s.retired {
			continue
		}
		if s.stale(now, o) {
			s.retire()
			continue
		}
		if s.flight.n < tableFull {
			t.up.metrics.opened(over, false)
			return s
		}
	}
	if len(t.conns) >= maxStreams {
		return t.crowded(over)
	}
	s := &stream{set: t, over: over, opened: now, used: now, wake: make(chan struct{}, 1), done: make(chan struct{})}
	s.retired = t.up.passing() // for this question only
	t.conns = append(t.conns, s)
	t.up.metrics.opened(over, true)
	go s.run()
	return s
}

// crowded gives the connection with the most room left when no more may be opened.
func (t *streams) crowded(over proto) (best *stream) {
	for _, s := range t.conns {
		if s.over == over && !s.retired && (best == nil || s.flight.n < best.flight.n) {
			best = s
		}
	}
	return best
}

// connected says whether a question could leave at once.
func (t *streams) connected() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.conns {
		if s.conn != nil && !s.retired {
			return true
		}
	}
	return false
}

// stale says whether s has been unused, or in use, for too long.
func (s *stream) stale(now time.Time, o *Options) bool {
	return s.flight.n == 0 && now.Sub(s.used) > o.Expire || o.MaxAge > 0 && now.Sub(s.opened) > o.MaxAge
}

// retire lets no more questions leave by s and closes it once none is in flight. The caller holds the lock.
func (s *stream) retire() {
	s.retired = true
	if s.flight.n == 0 && s.conn != nil {
		s.hangUp()
	}
}

// hangUp closes the connection. TLS says good-bye first, which may wait for a peer that does not read, so nobody waits for that.
func (s *stream) hangUp() {
	if !s.closing {
		s.closing = true
		go s.conn.Close()
	}
}

// giveUp implements carrier.
func (t *streams) giveUp(a *attempt) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := a.stream
	if s == nil || !s.flight.remove(a) {
		return false
	}
	if s.conn != nil && !s.asked.IsZero() && time.Since(s.asked) >= stalled {
		s.retired = true
	}
	if s.retired {
		s.retire()
	}
	return true
}

// run dials, and reads until the connection ends.
func (s *stream) run() {
	err := s.connect()
	if err == nil {
		go s.write()
		err = s.read()
		s.conn.Close()
	}
	close(s.done)
	s.set.ended(s, err)
}

func (s *stream) connect() error {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	u := s.set.up
	conn, err := u.dial(ctx, "tcp")
	if err != nil {
		return err
	}
	if s.over == overTLS {
		c := tls.Client(conn, u.tls)
		if err := c.HandshakeContext(ctx); err != nil {
			conn.Close()
			return err
		}
		conn = c
	}
	s.set.mu.Lock()
	defer s.set.mu.Unlock()
	s.conn = conn
	if !s.asked.IsZero() {
		s.asked = time.Now() // what has gathered leaves now
	}
	if s.retired && s.flight.n == 0 { // whoever wanted it has given up
		s.hangUp()
	}
	return nil
}

// write sends what is in out, all that has gathered in one go.
func (s *stream) write() {
	var buf []byte
	for {
		select {
		case <-s.wake:
		case <-s.done:
			return
		}
		s.set.mu.Lock()
		buf, s.out = s.out, buf[:0]
		s.set.mu.Unlock()
		if len(buf) == 0 {
			continue
		}
		if err := s.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return
		}
		if _, err := s.conn.Write(buf); err != nil {
			s.conn.Close() // the reader sees it
			return
		}
		if cap(buf) > wire.MaxMessage {
			buf = nil
		}
	}
}

// read receives replies until the connection ends.
func (s *stream) read() error {
	var head [2]byte
	in, t := bufio.NewReaderSize(s.conn, readAhead), server.NewTurn()
	defer t.End()
	for {
		if in.Buffered() < len(head) {
			t.End()
		}
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint16(head[:]))
		if in.Buffered() < n {
			t.End() // nothing is held back while the rest comes
		}
		m := s.message(n)
		if _, err := io.ReadFull(in, m.b); err != nil {
			s.set.up.group.recycle(m)
			return err
		}
		if !s.received(m, t) {
			s.set.up.group.recycle(m)
		}
	}
}

func (s *stream) message(n int) *message {
	if n > bufferLen {
		return &message{make([]byte, n)}
	}
	m := s.set.up.group.buffer()
	m.b = m.b[:n]
	return m
}

// received hands a reply to the one who waits for it, and says whether there was one.
func (s *stream) received(m *message, t *server.Turn) bool {
	a, f, sent := s.find(m.b)
	if !sent.IsZero() { // too late, but the upstream works
		now := time.Now()
		s.set.up.heard(s.over, now.Sub(sent), now)
	}
	if a == nil {
		return false
	}
	a.finish(m, f, nil, t)
	return true
}

// find takes out the attempt that a reply is for; nil if there is none. If it was given up, sent is when it left.
func (s *stream) find(b []byte) (_ *attempt, _ fit, sent time.Time) {
	t := s.set
	if len(b) < wire.HeaderLen || b[2]&0xF8 != 0x80 {
		t.up.metrics.ignored[malformed].Inc()
		return nil, foreign, sent
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.asked = time.Time{}
	sl := s.flight.find(binary.BigEndian.Uint16(b))
	if sl == nil {
		t.up.metrics.ignored[wrongID].Inc()
		return nil, foreign, sent
	}
	a := sl.at
	if a == nil {
		sl.known = false
		t.up.metrics.ignored[late].Inc()
		return nil, foreign, sl.sent
	}
	f := a.x.question.compare(b, false) // nobody forges replies into a connection
	if f == foreign {
		t.up.metrics.ignored[wrongQuestion].Inc()
		return nil, foreign, sent
	}
	sl.at, sl.known = nil, false
	s.flight.n--
	if s.flight.n == 0 && (s.retired || t.spare(s)) {
		s.retire()
	}
	return a, f, sent
}

// spare says whether max_idle_conns others are unused already.
func (t *streams) spare(s *stream) bool {
	m, idle := t.up.group.opts.MaxIdleConns, 0
	for _, o := range t.conns {
		if o != s && o.flight.n == 0 && !o.retired {
			idle++
		}
	}
	return m > 0 && idle >= m
}

// ended takes a connection out that was closed or could not be opened. A peer may close a connection that is idle just when questions are
// under way to it (RFC 7766 6.2.4), or after so many of them, so they are sent again over a new one.
func (t *streams) ended(s *stream, err error) {
	if errors.Is(err, io.EOF) {
		err = errClosed
	}
	for _, a := range t.remove(s) {
		a.finish(nil, foreign, err, nil)
	}
}

// remove takes a connection out and gives those of its attempts that are not sent again.
func (t *streams) remove(s *stream) (lost []*attempt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, o := range t.conns {
		if o == s {
			t.conns = append(t.conns[:i], t.conns[i+1:]...)
			break
		}
	}
	again := s.conn != nil
	s.retired = true
	for _, a := range s.flight.all() {
		if again && a.redials < maxRedials {
			a.redials++
			if t.put(a, time.Now()) == nil {
				continue
			}
		}
		lost = append(lost, a)
	}
	return lost
}

// sweep closes the connections that have not been used for long, or, when the configuration is replaced, all.
func (t *streams) sweep(now time.Time, all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.conns {
		if all || s.stale(now, &t.up.group.opts) {
			s.retire()
		}
	}
}
