package server

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterdns/clusterdns/server/wire"
)

// The faults that the engine itself records.
var (
	errNoHandler = errors.New("no directive of the server block answers this name")
	errNoTarget  = errors.New("no directive of the server block answers the name that its CNAME leads to")
	errFollows   = errors.New("the chain of CNAMEs loops or is longer than 8")
	errParked    = errors.New("too many queries are waiting for upstream servers")
)

// ErrOverload is in the cause (Reply.SetCause) of a failure that comes of a limit of this server's own. It says nothing of the name, so nobody
// remembers it.
var ErrOverload = errors.New("overload")

// The info codes of RFC 8914 4 that are used in more than one place.
const (
	EDEOther             uint16 = 0
	EDEStaleAnswer       uint16 = 3
	EDENotReady          uint16 = 14
	EDEStaleNXDomain     uint16 = 19
	EDENoReachable       uint16 = 22
	EDENetworkError      uint16 = 23
	EDEInvalidData       uint16 = 24
	EDECachedError       uint16 = 13
	EDEProhibited        uint16 = 18
	EDEBlocked           uint16 = 15
	EDEFiltered          uint16 = 17
	EDENotSupported      uint16 = 21
	EDESynthesizedAnswer uint16 = 29
)

// patience is how long a query may wait: resolvers give up on a server after 5 seconds (resolv.conf(5)), and an answer that comes
// after that answers nobody.
const patience = 5 * time.Second

// Limits bound what the server holds for others.
type Limits struct {
	// Parked is the most queries that wait at one time. Each holds 2.4 to 4.4 KiB, and a goroutine with as much again or more where the
	// handler is no Parker; over it they are SERVFAIL at once.
	Parked int
	// ParkedPerClient is the most of them that are one address's; over it, its queries are SERVFAIL at once. 0 is no bound.
	ParkedPerClient int
	// TCPConns is the most TCP connections open at one time on a listener. The one that was idle longest makes place for a new one: a
	// flood of them costs its own connections first. A connection holds about 30 KiB.
	TCPConns int
	// TCPPerClient is the most of them that one address may have. A node-local cache or a NAT gateway speaks for many Pods.
	TCPPerClient int
	// TCPQueries is how many queries of one TCP or TLS connection may wait at one time. Further ones are not read until one of those is answered: a
	// client that asks faster than it is answered is slowed down, and one connection alone cannot have all that may wait. 0 is no bound.
	TCPQueries int
	// TCPIdle is how long a TCP connection may be without a query (RFC 7766 6.2.3).
	TCPIdle time.Duration
	// QuerySize is the longest query that is taken, in bytes, over every transport.
	QuerySize int
	// Poison fills the buffers of answered queries with garbage before they are used again, so that whoever kept one is found out. It is
	// for tests.
	Poison bool
}

// DefaultLimits are the limits of a server that sets none.
func DefaultLimits() Limits {
	return Limits{Parked: 8192, ParkedPerClient: 4096, TCPConns: 4096, TCPPerClient: 512, TCPQueries: 256, TCPIdle: 10 * time.Second, QuerySize: 4096}
}

// outcome is what became of a query that was processed.
type outcome uint8

const (
	silent  outcome = iota // nothing is to be sent
	replied                // the slab holds the sealed reply
	parked                 // the slab is not the worker's any more
)

// slab is everything that one query needs, but for the buffer that it was received into. It is released exactly once.
type slab struct {
	q      Query
	r      Reply
	engine *engine
	in     []byte // the query, once it is parked
	out    responder
	turn   *Turn // of the goroutine that has it, if that has one
	udp    udpState
}

// responder sends the replies of queries that had been parked.
type responder interface {
	// respond sends the reply, if out says that there is one, and settles s. It does not block: a goroutine that serves others may be the caller.
	// Where t is not nil, the reply may leave at the end of that.
	respond(s *slab, out outcome, t *Turn)
	// hold counts n more of its queries as parked and not settled yet, or less. What it answers from is not closed before there are none.
	hold(n int)
}

// engine processes queries for all listeners.
type engine struct {
	limits   Limits
	hooks    Hooks
	slabs    sync.Pool
	parked   atomic.Int64
	shares   shares
	deadline deadlines
	crew     crew
	drops    drops
}

// Hooks are told of things that are no handler's business. Nil ones are not called. They may be called concurrently.
type Hooks struct {
	Panic  func(v any, stack []byte) // a handler panicked; its query became SERVFAIL
	Parked func(n int64)             // the number of parked queries changed
	Limit  func(Limit)               // a limit was hit
	// HTTPS is told the status of each answer to a request over HTTPS; server is the label of the listener's first block.
	HTTPS func(server string, status int)
	// Shared is told of an address that another process serves as well, by SO_REUSEPORT: queries are split between the two until one of them
	// ends. That is how one process takes over from another without a gap, and a mistake otherwise.
	Shared func(addr string)
}

// Limit names one of Limits that was hit, for counting.
type Limit uint8

// The limits that can be hit.
const (
	LimitParked          Limit = iota // a query was answered SERVFAIL because too many wait
	LimitTCPConns                     // the connection that was idle longest was closed for a new one
	LimitTCPPerClient                 // a connection was refused because its client has too many
	LimitQuerySize                    // a datagram was dropped, a connection closed, or a request refused because a query is too long
	LimitTCPQueries                   // a connection was not read because too many of its queries wait
	LimitTCPRead                      // a connection was closed because a query was not whole in time
	LimitTCPWrite                     // a connection was closed because a reply was not taken in time
	LimitFollows                      // a query was answered SERVFAIL because too many CNAMEs led on from its name
	LimitUDPReplies                   // a reply over UDP was dropped because too many wait for room in their socket
	LimitParkedPerClient              // a query was answered SERVFAIL because too many of its client wait
)

// String is a label for metrics.
func (l Limit) String() string {
	return [...]string{"parked", "tcp_connections", "tcp_connections_per_client", "query_size", "tcp_queries_per_connection",
		"tcp_read", "tcp_write", "follows", "udp_replies", "parked_per_client"}[l]
}

func (e *engine) count(l Limit) {
	if e.hooks.Limit != nil {
		e.hooks.Limit(l)
	}
}

// countLate counts l if err is that of a deadline, and not of a client that has gone.
func (e *engine) countLate(err error, l Limit) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e.count(l)
	}
}

func newEngine(l Limits, h Hooks) *engine {
	e := &engine{limits: l, hooks: h, crew: crew{work: make(chan task)}, shares: shares{seed: maphash.MakeSeed()}}
	e.slabs.New = func() any { return &slab{engine: e, r: Reply{buf: make([]byte, 0, replyRoom)}} }
	return e
}

// replyRoom is what a reply's buffer holds at first: most replies. Thousands of queries may be parked, each with a buffer.
const replyRoom = 512

func (e *engine) take() *slab { return e.slabs.Get().(*slab) }

// release gives the slab back. Buffers that grew far over the usual are left to the collector.
func (e *engine) release(s *slab) {
	s.out, s.turn = nil, nil
	s.q.Block, s.q.table, s.q.chain, s.q.raw = nil, nil, nil, nil
	s.q.EDNS.Options = nil
	s.r.spliced = nil
	clear(s.r.faults[:cap(s.r.faults)])
	clear(s.r.finishes[:cap(s.r.finishes)])
	if cap(s.r.buf) > 16<<10 {
		s.r.buf = make([]byte, 0, replyRoom)
	}
	if cap(s.r.scratch) > 16<<10 {
		s.r.scratch = nil
	}
	if e.limits.Poison {
		poison(s.in)
		poison(s.r.buf[:cap(s.r.buf)])
		poison(s.r.scratch[:cap(s.r.scratch)])
		poison(s.r.words[:cap(s.r.words)])
	}
	e.slabs.Put(s)
}

func poison(b []byte) {
	for i := range b {
		b[i] = 0xDB
	}
}

// process takes the query whose raw bytes, addresses, transport and table are set as far as it goes without waiting.
func (e *engine) process(s *slab) outcome {
	q, r := &s.q, &s.r
	h, err := wire.ParseHeader(q.raw)
	if err != nil || h.Flags&wire.FlagQR != 0 {
		return silent
	}
	q.ID, q.Flags, q.EDNS, q.ToUpstream, q.Upstream = h.ID, h.Flags, wire.EDNS{}, nil, ""
	q.Block, q.chain, q.cursor, q.follows, q.ref, q.shuffle, q.qend, q.depth, q.took = nil, nil, 0, 0, NoRef, false, 0, 0, 0
	if rc := q.parse(h); rc != wire.RCodeNoError {
		e.begin(s)
		r.rcode = rc
		return e.finish(s)
	}
	if !e.route(s) {
		return e.finish(s)
	}
	return e.enter(s)
}

// begin starts the reply: with the question, or with a header alone if that could not be read.
func (e *engine) begin(s *slab) {
	if s.q.qend == 0 {
		s.r.reset(&s.q)
		s.r.buf = append(s.r.buf, s.q.raw[:wire.HeaderLen]...)
		return
	}
	s.r.start(&s.q, e.size(&s.q))
}

// route finds the block and starts the reply. It says false when a view panicked: the reply is SERVFAIL then.
func (e *engine) route(s *slab) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			e.recovered(s, p)
		}
	}()
	s.q.Block = s.q.table.find(&s.q)
	e.begin(s)
	return true
}

// parse judges the header and reads question and OPT. On a bad question qend stays 0.
func (q *Query) parse(h wire.Header) wire.RCode {
	if op := h.Flags.Opcode(); op != wire.OpcodeQuery && op != wire.OpcodeNotify {
		return wire.RCodeNotImp
	}
	if !plausible(h) {
		return wire.RCodeFormErr
	}
	end, err := q.question()
	if err != nil {
		return wire.RCodeFormErr
	}
	if end != len(q.raw) || h.ANCount|h.NSCount|h.ARCount != 0 {
		if q.EDNS, err = wire.FindOPT(q.raw, h, end); err != nil {
			q.EDNS = wire.EDNS{}
			return wire.RCodeFormErr
		}
	}
	q.qend = end
	switch {
	case q.EDNS.Version != 0:
		return wire.RCodeBadVers
	case q.Type == wire.TypeOPT || q.Type == wire.TypeNone:
		return wire.RCodeFormErr
	}
	return wire.RCodeNoError
}

// question reads name, type and class, and gives the offset behind them.
func (q *Query) question() (end int, err error) {
	p, err := q.Name.Parse(q.raw, wire.HeaderLen)
	if err != nil {
		return 0, err
	}
	if p+4 > len(q.raw) {
		return 0, wire.ErrShort
	}
	q.Type = wire.Type(uint16(q.raw[p])<<8 | uint16(q.raw[p+1]))
	q.Class = wire.Class(uint16(q.raw[p+2])<<8 | uint16(q.raw[p+3]))
	return p + 4, nil
}

// plausible reports whether a query has one question and no more other records than queries of any kind carry.
func plausible(h wire.Header) bool {
	return h.QDCount == 1 && h.ANCount <= 1 && h.NSCount <= 1 && h.ARCount <= 2
}

// maxDatagram is what a datagram holds over IPv4, in bytes: 65,535 but for the headers of IP and UDP. A longer one cannot be sent, whatever the client says it takes.
const maxDatagram = 65507

// size is the longest reply that may be sent to q's client.
func (e *engine) size(q *Query) int {
	if q.Transport != UDP {
		return wire.MaxMessage
	}
	n := wire.MinUDPSize
	if q.EDNS.Present {
		n = min(max(n, int(q.EDNS.UDPSize)), maxDatagram)
	}
	if q.Block != nil && q.Block.Options.MaxUDP > 0 {
		n = min(n, max(wire.MinUDPSize, int(q.Block.Options.MaxUDP)))
	}
	return n
}

// enter begins the walk of a query whose block is set.
func (e *engine) enter(s *slab) outcome {
	b := s.q.Block
	if b == nil || len(b.Chain) == 0 || s.q.Class != wire.ClassIN && !b.Options.AnyClass {
		s.r.rcode = wire.RCodeRefused
		return e.finish(s)
	}
	if s.q.Flags.Opcode() == wire.OpcodeNotify {
		e.notify(s)
		return e.finish(s)
	}
	s.q.chain, s.q.shuffle = b.Chain, b.Options.Shuffle
	return e.walk(s, nil)
}

// notify tells the handlers that a zone changed elsewhere. Where none cares, NOTIFY is an opcode that is not implemented. A panic is SERVFAIL.
func (e *engine) notify(s *slab) {
	q, r := &s.q, &s.r
	defer func() {
		if q.Block.Options.PanicHard {
			return
		}
		if p := recover(); p != nil {
			e.recovered(s, p)
		}
	}()
	for i := range q.Block.Chain {
		if n, ok := q.Block.Chain[i].Handler.(Notified); ok && n.Notify(q) {
			r.by = q.Block.Chain[i].Name
			r.SetAA()
			return
		}
	}
	r.rcode = wire.RCodeNotImp
}

// walk asks the handlers from the cursor on. Without a context it parks where one has to wait; with one it waits itself.
func (e *engine) walk(s *slab, ctx context.Context) outcome {
	v := e.ask(s, ctx)
	switch v {
	case Wait:
		return e.park(s)
	case Drop:
		s.r.dropped = true
	case Pass:
		unserved(&s.q, &s.r)
	}
	return e.finish(s)
}

// unserved ends a query that nobody here answers.
func unserved(q *Query, r *Reply) Verdict {
	switch {
	case q.follows > 0 && q.partial:
		return Done
	case q.Class != wire.ClassIN && q.Class != wire.ClassANY:
		r.SetRCode(wire.RCodeRefused) // as where nothing is for other classes at all
		return Done
	}
	if q.follows > 0 {
		return r.failed(errNoTarget)
	}
	return r.failed(errNoHandler)
}

// ask walks the chain until a verdict other than Pass, or Pass at its end. A panic is SERVFAIL.
func (e *engine) ask(s *slab, ctx context.Context) (v Verdict) {
	defer func() {
		if s.q.Block.Options.PanicHard {
			return
		}
		if p := recover(); p != nil {
			v = e.recovered(s, p)
		}
	}()
	q, r := &s.q, &s.r
	for q.cursor < len(q.chain) {
		st := &q.chain[q.cursor]
		v = st.Handler.Answer(r, q)
		if v == Wait && ctx != nil {
			v = st.Handler.(Waiter).AwaitAnswer(ctx, r, q)
		}
		switch v {
		case Pass:
			q.cursor++
			continue
		case Follow:
			r.by = st.Name
			if v = e.follow(q, r); v == Pass {
				continue
			}
			return v
		}
		r.by = st.Name
		return v
	}
	return Pass
}

// follow restarts the chain with the target of a CNAME.
func (e *engine) follow(q *Query, r *Reply) Verdict {
	if q.follows++; q.follows > MaxFollows {
		e.count(LimitFollows)
		return r.failed(errFollows)
	}
	b := q.table.find(q)
	if b == nil || len(b.Chain) == 0 {
		return unserved(q, r)
	}
	q.chain, q.cursor, q.shuffle = b.Chain, 0, b.Options.Shuffle
	return Pass
}

func (e *engine) recovered(s *slab, p any) Verdict { return e.panicked(s, p, debug.Stack()) }

// panicked counts a panic and makes the reply SERVFAIL.
func (e *engine) panicked(s *slab, p any, stack []byte) Verdict {
	if e.hooks.Panic != nil {
		e.hooks.Panic(p, stack)
	}
	e.begin(s)
	return s.r.Fail(fmt.Errorf("a handler panicked: %v", p))
}

// finish runs the finishers, seals the reply and shows it to the observers. One of them that panics leaves SERVFAIL, which the others do
// not see.
func (e *engine) finish(s *slab) (out outcome) {
	q, r := &s.q, &s.r
	defer func() {
		if q.Block != nil && q.Block.Options.PanicHard {
			return
		}
		if p := recover(); p != nil {
			e.recovered(s, p)
			r.seal()
			out = replied
		}
	}()
	for i := len(r.finishes) - 1; i >= 0; i-- {
		r.finishes[i].f.Finish(r, q, r.finishes[i].state)
	}
	if !r.dropped {
		r.seal()
	}
	observers := q.table.unrouted
	if q.Block != nil {
		observers = q.Block.Observers
	}
	for _, o := range observers {
		o.Observe(r, q)
	}
	if r.dropped {
		return silent
	}
	return replied
}
