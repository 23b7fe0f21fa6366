package e2e_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/test/e2e/cluster"
)

const (
	loadRate = 1000 // queries per second in all
	// Sockets that live as long as the load, as those of real clients do: what the node's rules remember about them stays, too. The kernel
	// chooses by them between processes that share a port, so a few more are needed there.
	loadSockets  = 20
	localSockets = 200
	// loadPatience is how long a query waits for its reply, without asking again: what resolvers wait before their second attempt.
	loadPatience = 5 * time.Second
)

// question is one of a load, with the answer that is right.
type question struct {
	name    string // what begins with anyLabel is another name each time
	rcode   int
	answers int
}

// anyLabel stands for a label that no query has had before: what is in a cache does not answer it.
const anyLabel = "*."

// repeatAfter is how long an attempt waits that is not the last one.
const repeatAfter = time.Second

// load asks a DNS server all the time.
type load struct {
	sockets   int
	attempts  int // how often a query is sent at the most
	repeated  atomic.Int64
	stop      chan struct{}
	wg        sync.WaitGroup
	sent      atomic.Int64
	replied   atomic.Int64
	mu        sync.Mutex
	faults    []string // the first few
	faulty    int
	begun     time.Time
	when      map[string]int // queries that failed, by the time of sending, in tenths of a second since the beginning
	again     map[string]int // queries that were asked again, in the same way
	slowest   time.Duration
	questions []question
}

// startLoad asks questions over and over until finish. With one attempt not a single datagram may get lost; with two the load is like
// real resolvers.
func startLoad(t *testing.T, attempts int, questions ...question) *load {
	t.Helper()
	return startLoadOn(t, cluster.DNSIP, loadSockets, attempts, questions...)
}

// startLoadOn is startLoad for any server, with so many sockets.
func startLoadOn(t *testing.T, ip string, sockets, attempts int, questions ...question) *load {
	t.Helper()
	l := &load{sockets: sockets, attempts: attempts, stop: make(chan struct{}), questions: questions, begun: time.Now(), when: map[string]int{}, again: map[string]int{}}
	for i := range sockets {
		conn, err := net.Dial("udp", ip+":53")
		if err != nil {
			t.Fatal(err)
		}
		s := &loadSocket{load: l, conn: conn, pending: map[uint16]pending{}}
		l.wg.Add(2)
		go s.send(i)
		go s.receive()
	}
	return l
}

// finish ends the load and says what became of it: every query must have had the right answer.
func (l *load) finish(t *testing.T, what string) {
	t.Helper()
	close(l.stop)
	l.wg.Wait()
	t.Logf("%s: %d queries, %d right answers, %d lost or wrong, %d asked again, slowest %s", what, l.sent.Load(), l.replied.Load(), l.faulty, l.repeated.Load(), l.slowest.Round(time.Millisecond))
	if len(l.again) > 0 {
		t.Logf("%s: asked again, by tenths of a second since the beginning: %v", what, l.again)
	}
	if l.faulty > 0 || l.replied.Load() != l.sent.Load() {
		t.Errorf("%s: %q; by tenths of a second since the beginning: %v", what, l.faults, l.when)
	}
	if l.sent.Load() == 0 {
		t.Error("there was no load")
	}
}

// fault counts a query that had no reply, or a wrong one.
func (l *load) fault(p pending, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faulty++
	l.when[l.tenth(p.sent)]++
	if len(l.faults) < 3 {
		l.faults = append(l.faults, p.question.name+": "+what)
	}
}

// tenth is a time since the beginning.
func (l *load) tenth(at time.Time) string { return fmt.Sprintf("%05.1f", at.Sub(l.begun).Seconds()) }

// repeat counts a query that is asked again.
func (l *load) repeat(p pending) {
	l.repeated.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.again[l.tenth(p.sent)]++
}

func (l *load) latency(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slowest = max(l.slowest, d)
}

// loadSocket is one socket of a load with the queries that wait for their replies.
type loadSocket struct {
	load    *load
	conn    net.Conn
	mu      sync.Mutex
	pending map[uint16]pending
	stopped bool // nothing more is sent
}

type pending struct {
	question question
	sent     time.Time
	attempt  int
}

// send asks at the socket's share of the rate.
func (s *loadSocket) send(number int) {
	defer s.load.wg.Done()
	ticker := time.NewTicker(time.Second * time.Duration(s.load.sockets) / loadRate)
	defer ticker.Stop()
	for id := uint16(0); ; id++ {
		select {
		case <-s.load.stop:
			s.mu.Lock()
			s.stopped = true
			s.mu.Unlock()
			return
		case <-ticker.C:
		}
		q := s.load.questions[(number+int(id))%len(s.load.questions)]
		if rest, found := strings.CutPrefix(q.name, anyLabel); found {
			q.name = fmt.Sprintf("n%d-%d.%s", number, id, rest)
		}
		s.mu.Lock()
		s.pending[id] = pending{q, time.Now(), 1}
		s.mu.Unlock()
		s.load.sent.Add(1)
		s.write(id, q)
	}
}

// write sends a query. An error is one of an earlier datagram, such as a refusal; the query's own time-out shows what it means.
func (s *loadSocket) write(id uint16, q question) {
	m := new(dns.Msg)
	m.SetQuestion(q.name, dns.TypeA)
	m.Id = id
	if msg, err := m.Pack(); err == nil {
		_, _ = s.conn.Write(msg)
	}
}

// receive takes replies until nothing more is sent and nothing is waited for.
func (s *loadSocket) receive() {
	defer s.load.wg.Done()
	defer s.conn.Close()
	buf := make([]byte, dns.MaxMsgSize)
	for !s.idle() {
		_ = s.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, err := s.conn.Read(buf)
		if err != nil {
			continue // the deadline, or a refusal that the query's own time-out shows
		}
		m := new(dns.Msg)
		if err := m.Unpack(buf[:n]); err != nil {
			continue // the query is counted as lost
		}
		s.judge(m)
	}
}

func (s *loadSocket) judge(m *dns.Msg) {
	s.mu.Lock()
	p, ok := s.pending[m.Id]
	delete(s.pending, m.Id)
	s.mu.Unlock()
	switch {
	case !ok: // answered twice, or too late and counted already
	case m.Rcode != p.question.rcode || len(m.Answer) != p.question.answers:
		s.load.fault(p, fmt.Sprintf("%s, %d answers", dns.RcodeToString[m.Rcode], len(m.Answer)))
	default:
		s.load.replied.Add(1)
		s.load.latency(time.Since(p.sent))
	}
}

// idle repeats queries, gives up on those that are too old, and reports whether the socket is done.
func (s *loadSocket) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range s.pending {
		switch age := time.Since(p.sent); {
		case age > loadPatience:
			delete(s.pending, id)
			s.load.fault(p, "no reply")
		case p.attempt < s.load.attempts && age > repeatAfter*time.Duration(p.attempt):
			p.attempt++
			s.pending[id] = p
			s.load.repeat(p)
			s.write(id, p.question)
		}
	}
	return s.stopped && len(s.pending) == 0
}

// clusterQuestions have the same answers for as long as the lab stands, whoever serves them.
func clusterQuestions() []question {
	return []question{
		{"kubernetes.default.svc.cluster.local.", dns.RcodeSuccess, 1},
		{"web-svc.service-lab.svc.cluster.local.", dns.RcodeSuccess, 1},
		{"web-svc.service-lab.svc.cluster.local.service-lab.svc.cluster.local.", dns.RcodeNameError, 0},
		{external, dns.RcodeSuccess, 1},
	}
}
