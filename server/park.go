package server

import (
	"context"
	"fmt"
	"hash/maphash"
	"net/netip"
	"runtime/debug"
	"sync/atomic"

	"github.com/clusterdns/clusterdns/server/wire"
)

// Parked is a query that waits for its handler, which had it from Park.
type Parked struct{ s *slab }

// Turn is that of the goroutine which called Park, or nil. It is for use within Park.
func (p Parked) Turn() *Turn { return p.s.turn }

// Resume goes on where Park said that the query would: v is what AwaitAnswer would have said, any verdict but Wait. The handlers behind, the
// finishers and the observers run on the caller's goroutine. The reply leaves with t, which is the caller's turn, or at once if that is nil.
// When it returns, the query is answered, or another handler's to wait for.
func (p Parked) Resume(v Verdict, t *Turn) {
	s := p.s
	e := s.engine
	from := s.out
	s.turn = t
	e.unpark(&s.q)
	out := e.goOn(s, v, nil)
	if out == parked {
		from.hold(-1) // it has been counted once more
		return
	}
	s.out.respond(s, out, t)
}

// Panicked is Resume for a handler that has caught a panic of its own, with its stack: the query becomes SERVFAIL as it does for a panic in AwaitAnswer.
func (p Parked) Panicked(v any, stack []byte, t *Turn) {
	if p.s.q.Block.Options.PanicHard {
		panic(fmt.Sprintf("%v\n\n%s", v, stack))
	}
	p.Resume(p.s.engine.panicked(p.s, v, stack), t)
}

// park lets the query wait: its handler wakes it, or it gets a goroutine to wait on.
func (e *engine) park(s *slab) outcome {
	if l, ok := e.mayPark(&s.q); !ok {
		e.count(l)
		s.r.by = "" // not what the directive says of the name
		s.r.failed(errParked)
		return e.finish(s)
	}
	s.out.hold(1)
	s.keep()
	if !e.entrust(s) {
		e.crew.do(s)
	}
	return parked
}

// mayPark counts a query as parked, or names the limit that it is over.
func (e *engine) mayPark(q *Query) (over Limit, ok bool) {
	if e.parked.Add(1) > int64(e.limits.Parked) {
		e.parked.Add(-1)
		return LimitParked, false
	}
	if own := e.shares.of(q.Client.Addr()).Add(1); e.limits.ParkedPerClient > 0 && own > int64(e.limits.ParkedPerClient) {
		e.unpark(q)
		return LimitParkedPerClient, false
	}
	return 0, true
}

func (e *engine) unpark(q *Query) {
	e.parked.Add(-1)
	e.shares.of(q.Client.Addr()).Add(-1)
}

// shares counts the parked queries of each client, without a lock and in room that no number of clients changes: those that fall on one counter
// share it. Which do is another matter in each process.
type shares struct {
	seed     maphash.Seed
	counters [1024]atomic.Int64
}

func (s *shares) of(client netip.Addr) *atomic.Int64 {
	b := client.As16()
	return &s.counters[maphash.Bytes(s.seed, b[:])%uint64(len(s.counters))]
}

// keep gives s a copy of its message: the buffer that it was received into stays with who received it.
func (s *slab) keep() {
	q := &s.q
	s.in = append(s.in[:0], q.raw...)
	q.raw = s.in
	if len(q.EDNS.Options) == 0 {
		return
	}
	if h, err := wire.ParseHeader(q.raw); err == nil {
		if e, err := wire.FindOPT(q.raw, h, q.qend); err == nil {
			q.EDNS.Options = e.Options
		}
	}
}

// entrust leaves s to its handler, if that can go on without a goroutine, and says whether it did. cancel's shorter patience needs a context.
func (e *engine) entrust(s *slab) (left bool) {
	h, ok := s.q.chain[s.q.cursor].Handler.(Parker)
	if !ok || s.q.Block.Options.Patience > 0 {
		return false
	}
	defer func() {
		if left || s.q.Block.Options.PanicHard {
			return
		}
		if p := recover(); p != nil {
			Parked{s}.Panicked(p, debug.Stack(), s.turn)
			left = true
		}
	}()
	return h.Park(Parked{s}, &s.r, &s.q)
}

// do implements task: it goes on with a parked query, on a goroutine of the crew.
func (s *slab) do() {
	e := s.engine
	s.turn = nil
	ctx := e.deadline.after(patience)
	if p := s.q.Block.Options.Patience; p > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.Background(), p)
		defer cancel()
	}
	out := e.goOn(s, e.await(s, ctx), ctx)
	e.unpark(&s.q)
	s.out.respond(s, out, nil)
}

// settle ends a query that had been parked: its reply is sent.
func (e *engine) settle(s *slab) {
	from := s.out
	e.release(s)
	from.hold(-1)
}

// goOn walks on from the handler at the cursor, which said v after it had waited.
func (e *engine) goOn(s *slab, v Verdict, ctx context.Context) outcome {
	s.r.by = s.q.chain[s.q.cursor].Name
	switch v {
	case Pass:
		s.q.cursor++
		return e.walk(s, ctx)
	case Follow:
		if v = e.follow(&s.q, &s.r); v == Pass {
			return e.walk(s, ctx)
		}
	case Drop:
		s.r.dropped = true
	}
	return e.finish(s)
}

// await calls AwaitAnswer of the handler at the cursor.
func (e *engine) await(s *slab, ctx context.Context) (v Verdict) {
	defer func() {
		if s.q.Block.Options.PanicHard {
			return
		}
		if p := recover(); p != nil {
			v = e.recovered(s, p)
		}
	}()
	return s.q.chain[s.q.cursor].Handler.(Waiter).AwaitAnswer(ctx, &s.r, &s.q)
}
