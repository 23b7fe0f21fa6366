package server

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/clusterdns/clusterdns/server/wire"
)

// Rest is a place in a chain from which questions of a handler's own can be asked, on behalf of the client of the query that it was
// taken from: acl and view judge them as that client's. It stays valid after the query is answered, as
// long as the configuration is served.
type Rest struct {
	e      *engine
	table  *table
	block  *Block
	chain  []Stage
	cursor int
	client netip.AddrPort // on whose behalf
	local  netip.AddrPort
	depth  uint8
	toUp   []byte
}

// Rest is the chain behind the handler that is being asked.
func (q *Query) Rest() Rest { return q.from(q.cursor + 1) }

// Here is the chain from the handler that is being asked on, itself included.
func (q *Query) Here() Rest { return q.from(q.cursor) }

// Start is the whole chain of the block that a question falls into, as if a client had asked it.
func (q *Query) Start() Rest { return q.from(-1) }

func (q *Query) from(cursor int) Rest {
	return Rest{e: q.table.engine, table: q.table, block: q.Block, chain: q.chain, cursor: cursor, client: q.Client, local: q.Local, depth: q.depth, toUp: q.ToUpstream}
}

// Question is what Exchange asks.
type Question struct {
	Name  []byte // uncompressed wire form; its letter case is kept
	Type  wire.Type
	Class wire.Class // 0 means IN
	RD    bool
	DO    bool
	CD    bool
	AD    bool // wants to know if the data is authenticated, without DO (RFC 6840 5.7)
}

// OnBehalf is a question on behalf of q's client: of its class, and with the flags that it asked with.
func (q *Query) OnBehalf(name []byte, t wire.Type) Question {
	return Question{Name: name, Type: t, Class: q.Class, RD: q.RD(), DO: q.EDNS.DO, CD: q.CD(), AD: q.Flags&wire.FlagAD != 0}
}

// Packed is the reply to a question of a handler's own: a whole message without OPT, and the Extended DNS Errors that came with it.
type Packed struct {
	Msg    []byte
	EDE    []ExtendedError
	Faults []error
}

// RCode is the reply's response code.
func (p *Packed) RCode() wire.RCode {
	return wire.Flags(uint16(p.Msg[2])<<8 | uint16(p.Msg[3])).RCode()
}

// errDepth is the end of handlers whose questions lead back to themselves.
var errDepth = errors.New("questions of directives' own lead to more than 8 others")

// Exchange asks the chain a question and waits for the reply until ctx ends. The reply is the caller's. Observers do not see it.
// It is meant for goroutines that may wait, so AwaitAnswer and a handler's own, and it allocates.
func (t Rest) Exchange(ctx context.Context, qu Question) *Packed {
	s := t.e.take()
	defer t.e.release(s)
	q := &s.q
	*q = Query{Transport: Internal, Client: t.client, Local: t.local, Received: time.Now(), table: t.table, depth: t.depth + 1, ToUpstream: t.toUp}
	s.in = question(s.in[:0], qu)
	q.raw = s.in
	q.Class = qu.Class
	h, _ := wire.ParseHeader(q.raw)
	q.Flags = h.Flags
	if rc := q.parse(h); rc != wire.RCodeNoError {
		s.r.reset(q)
		s.r.buf = append(s.r.buf, q.raw...)
		s.r.rcode = rc
		s.r.seal()
		return &Packed{Msg: bytes.Clone(s.r.buf)}
	}
	q.Block, q.chain, q.cursor = t.block, t.chain, t.cursor
	if t.cursor < 0 {
		if q.Block = t.table.find(q); q.Block != nil {
			q.chain = q.Block.Chain
		}
		q.cursor = 0
	}
	q.EDNS = wire.EDNS{DO: qu.DO}
	s.r.start(q, wire.MaxMessage)
	switch {
	case q.depth > MaxFollows:
		s.r.Fail(errDepth)
		q.Block = nil
	case q.Block == nil:
		s.r.rcode = wire.RCodeRefused
	}
	t.e.exchange(ctx, s)
	return &Packed{
		Msg:    bytes.Clone(s.r.buf),
		EDE:    append([]ExtendedError(nil), s.r.EDE()...),
		Faults: append([]error(nil), s.r.faults...),
	}
}

// exchange is walk and finish for a question of our own. A dropped reply is SERVFAIL here, and so is a panic: nobody else may be there to catch it.
func (e *engine) exchange(ctx context.Context, s *slab) {
	defer func() {
		if s.q.Block != nil && s.q.Block.Options.PanicHard {
			return
		}
		if p := recover(); p != nil {
			e.recovered(s, p)
			s.r.seal()
		}
	}()
	if s.q.Block != nil {
		switch e.ask(s, ctx) {
		case Pass:
			unserved(&s.q, &s.r)
		case Drop:
			s.r.rcode = wire.RCodeServFail
		}
	}
	for i := len(s.r.finishes) - 1; i >= 0; i-- {
		s.r.finishes[i].f.Finish(&s.r, &s.q, s.r.finishes[i].state)
	}
	s.r.seal()
}

// question builds the message of a question.
func question(b []byte, qu Question) []byte {
	f := wire.Flags(0)
	if qu.RD {
		f |= wire.FlagRD
	}
	if qu.AD {
		f |= wire.FlagAD
	}
	if qu.CD {
		f |= wire.FlagCD
	}
	if qu.Class == 0 {
		qu.Class = wire.ClassIN
	}
	b = append(b, 0, 0, byte(f>>8), byte(f), 0, 1, 0, 0, 0, 0, 0, 0)
	b = append(b, qu.Name...)
	return append(b, byte(qu.Type>>8), byte(qu.Type), byte(qu.Class>>8), byte(qu.Class))
}
